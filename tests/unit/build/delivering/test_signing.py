"""The signature of the packages' digests: minisign's, by its own rules and byte for byte."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import minisign
import package_toy as toy
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from golden_files import Golden
from test_package_story import Workspace, checked

from orchestrator.build.delivering import signing_key as signing
from orchestrator.cli import main, make_context
from orchestrator.deliver.record import drop_packages
from orchestrator.deliver.variant import DeliverInputs
from orchestrator.errors import OrchestratorError, Place
from orchestrator.packagers.minisign import SigningKeyLockedError, open_key
from orchestrator.packagers.sums import SIGNATURE, SUMS, write_sums
from orchestrator.system.environment import SIGNING_PASSWORD, Environment

CASES = toy.ROOT / "tests/failing/signing"
HERE = Place("WORKSPACE")
SEED = hashlib.sha256(b"a key for tests").digest()
KEY_ID = b"for test"
PRIVATE = Ed25519PrivateKey.from_private_bytes(SEED)
# minisign 0.11: minisign -S -s KEY -m SHA256SUMS -t 'toy-libtorch 1.2.0'
TEXT = f"{1:064d}  a.deb\n{2:064d}  b.tar.zst\n".encode()
COMMENT = "toy-libtorch 1.2.0"
BY_MINISIGN = b"""\
untrusted comment: signature from minisign secret key
RURmb3IgdGVzdD4HFNvWjjm+pezz0CAX63c9iSL5szFRIZRYZsiyDLADjwkQUdhFmohqW7L9imL1LRAE6Fcot6GpJU63FbAb4Q0=
trusted comment: toy-libtorch 1.2.0
Lx9DKa2g8Nkphp4UsiGSxw7epM+7HUjmxbztBN+H02fv6MspKPSwonDN8gbvffaoImkBv2QrmjI/zUUd9DsdBw==
"""

# What the list has, and so its signature covers: the packages, and the statement about them.
LISTED = (
    "toy-libtorch-1.2.0-linux-x86_64-symbols.tar.zst",
    "toy-libtorch-1.2.0-linux-x86_64.tar.zst",
    "toy-libtorch-1.2.0-linux-x86_64.tar.zst.intoto.json",
    "toy-libtorch-1.2.0-linux-x86_64.tar.zst.vex.cdx.json",
)


def key_text(public: bytes | None = None) -> bytes:
    """A secret key's file, without a password, as minisign's "Secret key format" has it."""
    halves = SEED + (public or PRIVATE.public_key().public_bytes_raw())
    checksum = hashlib.blake2b(b"Ed" + KEY_ID + halves, digest_size=32).digest()
    content = b"Ed\0\0B2" + bytes(48) + KEY_ID + halves + checksum
    return b"untrusted comment: minisign secret key\n" + base64.b64encode(content) + b"\n"


def locked_text(password: str) -> bytes:
    """The same key with a password, with less work to try one than minisign asks for."""
    key = minisign.SecretKey.from_bytes(key_text())
    key.encrypt(password)
    return bytes(key) + b"\n"


def verify(text: bytes, signature: bytes) -> str:
    """The trusted comment, by minisign's "Signature format"; raises `InvalidSignature`."""
    untrusted, first, trusted, second, end = signature.split(b"\n")
    assert untrusted.startswith(b"untrusted comment: ")
    assert trusted.startswith(b"trusted comment: ")
    assert end == b""
    blob = base64.b64decode(first, validate=True)
    algorithm, key_id, of_text = blob[:2], blob[2:10], blob[10:]
    assert (algorithm, key_id) == (b"ED", KEY_ID)
    comment = trusted.removeprefix(b"trusted comment: ")
    public = Ed25519PublicKey.from_public_bytes(PRIVATE.public_key().public_bytes_raw())
    public.verify(of_text, hashlib.blake2b(text).digest())
    public.verify(base64.b64decode(second, validate=True), of_text + comment)
    return comment.decode()


def test_a_signature_is_what_minisign_writes(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(key_text())
    assert open_key(path, HERE, None).sign(TEXT, COMMENT) == BY_MINISIGN
    assert verify(TEXT, BY_MINISIGN) == COMMENT
    with pytest.raises(InvalidSignature):
        verify(TEXT + b" ", BY_MINISIGN)


def test_a_password_opens_the_key(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(locked_text("secret"))
    assert open_key(path, HERE, "secret").sign(TEXT, COMMENT) == BY_MINISIGN
    for password in ("Secret", None, "\udc80"):
        with pytest.raises(SigningKeyLockedError):
            open_key(path, HERE, password).sign(TEXT, COMMENT)


def test_neither_key_nor_password_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(locked_text("secret"))
    shown = repr(open_key(path, HERE, "the password"))
    assert "the password" not in shown
    assert "content" not in shown


class Signed(Workspace):
    """A workspace that declares a key, which lies outside of it."""

    key: Path

    def sign(self, password: str | None = None, **env: str) -> None:
        """Run commands with the key's path in KEY, if `env` has no other, and this password."""
        known = {"HOME": str(self.root), "KEY": str(self.key)}
        self.run_with(env={**known, **env}, signing_password=password)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.judged_inputs(tmp_path_factory.mktemp("quick"))


@pytest.fixture
def workspace(tmp_path: Path, quick: DeliverInputs) -> Signed:
    root = tmp_path / "workspace"
    root.mkdir()
    workspace = Signed(root, quick, "linux-x86_64", added="signing: {minisign: $KEY}\n")
    workspace.declare(packages=["tar"])
    workspace.deliver("linux-x86_64")
    workspace.key = tmp_path / "key"
    workspace.key.write_bytes(key_text())
    workspace.sign()
    return workspace


def content(workspace: Workspace) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in workspace.into.iterdir()}


def test_the_digests_are_signed_once(workspace: Signed) -> None:
    workspace.build("linux-x86_64")
    assert workspace.said == ["//apps/toy: SHA256SUMS of its packages is signed"]
    first = content(workspace)
    assert verify(first[SUMS], first[SIGNATURE]) == "toy-libtorch 1.2.0"
    assert checked(workspace.into) == [f"{name}: OK" for name in LISTED], "without the signature"
    workspace.build("linux-x86_64")
    assert content(workspace) == first
    assert len(workspace.said) == 1
    workspace.deliver("linux-x86_64", version="1.3.0")
    workspace.declare(version="1.3.0")
    workspace.build("linux-x86_64")
    second = content(workspace)
    assert verify(second[SUMS], second[SIGNATURE]) == "toy-libtorch 1.3.0"


def test_a_list_of_another_version_is_signed_again(workspace: Signed) -> None:
    """The names of packages need not tell the version."""
    workspace.build("linux-x86_64")
    key = open_key(workspace.key, HERE, None)
    assert not write_sums(workspace.into, key, "toy-libtorch 1.2.0")
    assert write_sums(workspace.into, key, "toy-libtorch 1.2.1")
    signed = content(workspace)
    assert verify(signed[SUMS], signed[SIGNATURE]) == "toy-libtorch 1.2.1"


def test_a_key_with_a_password_is_not_tried_where_nothing_changed(workspace: Signed) -> None:
    workspace.key.write_bytes(locked_text("secret"))
    workspace.sign("secret")
    workspace.build("linux-x86_64")
    first = content(workspace)
    assert verify(first[SUMS], first[SIGNATURE])
    workspace.sign("wrong")
    workspace.build("linux-x86_64")
    assert content(workspace) == first


def test_without_its_variable_nothing_is_signed_and_that_is_said(workspace: Signed) -> None:
    workspace.build("linux-x86_64")
    workspace.said.clear()
    workspace.sign(KEY="")
    signing.check_signing(workspace.here)
    assert workspace.said == ["packages are not signed: $KEY names a variable that is unset"]
    workspace.build("linux-x86_64")
    assert SIGNATURE not in content(workspace), "the one before is not of this build"
    assert checked(workspace.into) == [f"{name}: OK" for name in LISTED]


def test_the_signature_goes_with_the_packages(workspace: Signed) -> None:
    workspace.build("linux-x86_64")
    assert {SUMS, SIGNATURE} <= set(drop_packages(workspace.into))
    assert list(workspace.into.iterdir()) == []


def with_fault(case: str, workspace: Signed) -> None:
    """Makes the declared key unusable."""
    if case == "missing":
        workspace.key.unlink()
    elif case == "unreadable":
        workspace.key.unlink()
        workspace.key.mkdir()
    elif case == "public":
        workspace.key.write_bytes(b"untrusted comment: minisign public key\n" + b"A" * 56 + b"\n")
    elif case == "other_file":
        workspace.key.write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    elif case == "large":
        workspace.key.write_bytes(key_text() * 20)
    elif case == "changed":
        other = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
        workspace.key.write_bytes(key_text(other))
    elif case == "in_workspace":
        workspace.key = workspace.key.rename(workspace.root / "key")
        workspace.sign()
    elif case == "no_password":
        workspace.key.write_bytes(locked_text("secret"))
    else:
        assert case == "wrong_password"
        workspace.key.write_bytes(locked_text("secret"))
        workspace.sign("another")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_bad_key(case: str, workspace: Signed, golden: Golden) -> None:
    with_fault(case, workspace)
    with pytest.raises(OrchestratorError) as caught:
        workspace.build("linux-x86_64")
    told = caught.value.render().replace(str(workspace.root.parent), "$folder")
    golden(CASES / case / "expected.txt", told + "\n")
    assert SIGNATURE not in content(workspace)
    if case in ("changed", "no_password", "wrong_password"):
        signing.check_signing(workspace.here)  # only known once the key is used
        return
    with pytest.raises(type(caught.value), match=re.escape(str(caught.value))):
        signing.check_signing(workspace.here)


def test_the_password_is_for_us_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a build runs, compilers and models, has the environment."""
    (tmp_path / "WORKSPACE").write_bytes((toy.ROOT / "WORKSPACE").read_bytes())
    env = Environment({"HOME": str(tmp_path), SIGNING_PASSWORD: "secret"})
    context = make_context(SimpleNamespace(workspace=None), env, tmp_path)  # type: ignore[arg-type]
    assert context.signing_password == "secret"
    assert {**context.env} == {"HOME": str(tmp_path)}
    assert "secret" not in repr(context)
    monkeypatch.setenv(SIGNING_PASSWORD, "secret")
    seen: list[Environment] = []

    def run(words: Sequence[str], env: Environment, cwd: Path) -> int:
        seen.append(env)
        return 0

    monkeypatch.setattr("orchestrator.cli._run", run)
    assert main([]) == 0
    assert seen[0].secrets == {SIGNING_PASSWORD: "secret"}
    assert SIGNING_PASSWORD not in os.environ, "what inherits it would have it"


def test_a_build_that_is_told_again_looks_at_the_key(workspace: Signed) -> None:
    assert signing.key_files(workspace.here) == (workspace.key,)
    env = Environment({})
    workspace.here = replace(workspace.here, context=replace(workspace.here.context, env=env))
    assert signing.key_files(workspace.here) == ()
    assert "KEY" in env.looked_up, "and at the variable that names it"
