#!/bin/sh
# unpack.sh FOLDER: unpacks Debian 13's Swift and all that it needs into a new folder, with apt. Takes
# 3.2 GB; installs nothing on this machine. The packages come from the mirror that apt uses here.
set -eu
mkdir "$1"
cd "$1"
root=$PWD
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
mkdir -p apt/state/lists/partial apt/cache/archives/partial
: >apt/state/status
echo "deb [signed-by=$keys] $mirror trixie main" >apt/sources.list
cat >apt/apt.conf <<END
Dir::State "$root/apt/state";
Dir::State::Status "$root/apt/state/status";
Dir::Cache "$root/apt/cache";
Dir::Etc::SourceList "$root/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
APT::Architecture "amd64";
APT::Install-Recommends "false";
END
export APT_CONFIG="$root/apt/apt.conf"
apt-get -q update
apt-get -q --yes --download-only install swiftlang libc6-dev libstdc++-14-dev base-files coreutils dash
for package in apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink
done
rm -r apt
