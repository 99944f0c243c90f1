#!/bin/bash
# installed_program.sh SOURCE_DIR BINARY_DIR: packs the program for pip and for Debian, installs both in scratch
# folders, and runs what is there with nothing else on the path of programs or libraries.
set -euo pipefail
source_dir=$1
binary_dir=$2
scratch=$(mktemp -d)
trap 'rm -rf "${scratch}"' EXIT
fail() {
  printf 'installed_program: %s\n' "$1" >&2
  exit 1
}

"${source_dir}/tools/make_package.py" "${binary_dir}" "${scratch}/packages"
"${source_dir}/tools/make_package.py" "${binary_dir}" "${scratch}/again" >"${scratch}/again.log"
diff -r "${scratch}/packages" "${scratch}/again" || fail 'the same program gave other packages'
deb=$(echo "${scratch}"/packages/lockstep_*.deb)
wheel=$(echo "${scratch}"/packages/lockstep_launch-*.whl)

# As a user would have it: an empty environment, without the network.
python3 -m venv "${scratch}/venv"
"${scratch}/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "${wheel}"
dpkg -x "${deb}" "${scratch}/unpacked"
[[ "$(dpkg-deb --field "${deb}" Package Version Architecture | wc -l)" -eq 3 ]] || fail 'control fields are missing'
(cd "${scratch}/unpacked" && dpkg-deb --ctrl-tarfile "${deb}" | tar -xO ./md5sums | md5sum --check --quiet)

for program in "${scratch}/venv/bin/lockstep" "${scratch}/unpacked/usr/bin/lockstep"; do
  lone() { env -i PATH="$(dirname "${program}"):/usr/bin:/bin" HOME="${scratch}" "$@"; }
  lone lockstep --version
  ! ldd "${program}" | grep -E 'torch|crypto|libz|stdc' || fail "${program} needs more than the C library"
  lone lockstep plan --set model.family=gpt --set model.width=768 --states-only >"${scratch}/plan"
  grep -q 'parameters' "${scratch}/plan" || fail "${program} does not plan"
  # shellcheck disable=SC2016 # each rank's own shell fills these in
  lone lockstep launch --nproc-per-node 2 --no-python /bin/sh -c 'echo "rank $RANK of $WORLD_SIZE"' >"${scratch}/ranks"
  grep -q 'rank 0 of 2' "${scratch}/ranks" && grep -q 'rank 1 of 2' "${scratch}/ranks" ||
    fail "${program} does not launch"
done
for file in bash-completion/completions/lockstep zsh/vendor-completions/_lockstep \
  fish/vendor_completions.d/lockstep.fish lockstep/run.schema.json man/man1/lockstep.1.gz \
  doc/lockstep/copyright doc/lockstep/from-torchrun.md; do
  [[ -s "${scratch}/unpacked/usr/share/${file}" ]] || fail "the Debian package has no share/${file}"
done
zcat "${scratch}/unpacked/usr/share/man/man1/lockstep.1.gz" | grep -q '^\.SH LOCKSTEP LAUNCH' ||
  fail 'the manual page does not know launch'
[[ -s "${scratch}/venv/share/bash-completion/completions/lockstep" ]] || fail 'the wheel has no completion'
"${scratch}/venv/bin/pip" uninstall --quiet --disable-pip-version-check --yes lockstep-launch
[[ ! -e "${scratch}/venv/bin/lockstep" ]] || fail 'the wheel leaves its program behind'
