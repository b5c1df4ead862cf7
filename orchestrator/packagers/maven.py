"""A Maven repository as a folder: what Gradle and Maven resolve an app's artifacts from.

    <group>/<artifact>/maven-metadata.xml                 which versions there are: one
    <group>/<artifact>/<version>/<artifact>-<version>.pom
    <group>/<artifact>/<version>/<artifact>-<version>.aar, and others by their suffixes
    <any of these>.md5, .sha1, .sha256, .sha512

Contract: pure, and the same bytes for the same artifacts; the time in the metadata is `EPOCH`. The
folder can be served, copied into an existing repository, or used directly:
`maven { url = uri("dist/camera/packages/maven") }`.

The layout: https://maven.apache.org/repository/layout.html
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from orchestrator.deliver.files import EPOCH, File

# What a repository is looked up with; the first two are what Maven itself asks for.
_DIGESTS: Final = ("md5", "sha1", "sha256", "sha512")
_POM: Final = "http://maven.apache.org/POM/4.0.0"
_SCHEMA: Final = "http://maven.apache.org/xsd/maven-4.0.0.xsd"
_INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"


@dataclass(frozen=True)
class Artifact:
    """An artifact, its main file an AAR.

    files       suffix -> content: `.aar`, `-sources.jar`
    licences    SPDX expressions
    depends_on  artifacts of the same group and version, which come along
    """

    group: str
    name: str
    version: str
    title: str
    description: str
    files: Mapping[str, bytes]
    licences: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()


def repository(artifacts: Iterable[Artifact]) -> tuple[File, ...]:
    """All files of the repository's folder."""
    return tuple(
        one
        for artifact in artifacts
        for file in _files(artifact)
        for one in (file, *_checksums(file))
    )


def _files(artifact: Artifact) -> Iterator[File]:
    folder = f"{artifact.group.replace('.', '/')}/{artifact.name}"
    stem = f"{folder}/{artifact.version}/{artifact.name}-{artifact.version}"
    yield File(f"{folder}/maven-metadata.xml", _metadata(artifact))
    yield File(f"{stem}.pom", _pom(artifact))
    for suffix, content in artifact.files.items():
        yield File(f"{stem}{suffix}", content)


def _checksums(file: File) -> Iterator[File]:
    assert isinstance(file.content, bytes)
    for name in _DIGESTS:
        digest = hashlib.new(name, file.content, usedforsecurity=False).hexdigest()
        yield File(f"{file.path}.{name}", digest.encode())


def _pom(artifact: Artifact) -> bytes:
    project = ElementTree.Element(
        "project",
        {
            "xmlns": _POM,
            "xmlns:xsi": _INSTANCE,
            "xsi:schemaLocation": f"{_POM} {_SCHEMA}",
        },
    )
    _add(project, "modelVersion", "4.0.0")
    _coordinates(project, artifact.group, artifact.name, artifact.version)
    _add(project, "packaging", "aar")
    _add(project, "name", artifact.title)
    _add(project, "description", artifact.description)
    licences = ElementTree.SubElement(project, "licenses")
    for expression in artifact.licences:
        licence = ElementTree.SubElement(licences, "license")
        _add(licence, "name", expression)
        _add(licence, "distribution", "repo")
    if artifact.depends_on:
        dependencies = ElementTree.SubElement(project, "dependencies")
        for name in artifact.depends_on:
            dependency = ElementTree.SubElement(dependencies, "dependency")
            _coordinates(dependency, artifact.group, name, artifact.version)
            _add(dependency, "type", "aar")
            _add(dependency, "scope", "compile")
    return _text(project)


def _metadata(artifact: Artifact) -> bytes:
    metadata = ElementTree.Element("metadata")
    _add(metadata, "groupId", artifact.group)
    _add(metadata, "artifactId", artifact.name)
    versioning = ElementTree.SubElement(metadata, "versioning")
    _add(versioning, "latest", artifact.version)
    _add(versioning, "release", artifact.version)
    _add(ElementTree.SubElement(versioning, "versions"), "version", artifact.version)
    _add(versioning, "lastUpdated", time.strftime("%Y%m%d%H%M%S", time.gmtime(EPOCH)))
    return _text(metadata)


def _coordinates(parent: ElementTree.Element, group: str, name: str, version: str) -> None:
    _add(parent, "groupId", group)
    _add(parent, "artifactId", name)
    _add(parent, "version", version)


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text


def _text(root: ElementTree.Element) -> bytes:
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()
