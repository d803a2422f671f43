#!/usr/bin/env bash
# Runs the real peers.
#
#   peers.sh run NAME [options]   one of them in the foreground:
#                                 pds labeler jetstream collectiondir
#                                 stripe stripe-mock webhooks ozone; judge reads stdin
#   peers.sh seed URL             fills a PDS that was started with --no-seed
#   peers.sh up DIR [NAME…]       some in the background (default: pds jetstream
#                                 collectiondir labeler), with logs, pids and
#                                 state files (NAME.json) in DIR
#   peers.sh check DIR            runs the checks against what is up in DIR
#   peers.sh check-localnet       starts localnet, and points clients of others at
#                                 both its Jetstream wires (install.sh node python)
#   peers.sh check-v1 FILE        the first wire of one that has printed FILE
#   peers.sh check-v2 FILE        the second wire
#   peers.sh verify-token …       see verify-token.mjs
#   peers.sh down DIR [NAME…]     stops what `up` started (default: all of it),
#                                 by process id
#
# `up` passes on options from PEERS_NAME_ARGS, the name in capitals and with _
# for -:  PEERS_PDS_ARGS="--no-seed" peers.sh up DIR pds jetstream
#
# Ports can be moved as a block: PEERS_PORT_BASE=12000 peers.sh up DIR
#   base+0 PLC  +1 PDS  +2 Jetstream  +3 collectiondir  +4 labeler
#   +5 labeler control  +6 Stripe  +7 Stripe mock  +8 webhooks
#   +9 Ozone  +10 Ozone control                                   (base 12000)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
base=${PEERS_PORT_BASE:-12000}
node=node # the machine's own, unless install.sh found it too old and brought one
for own in "$here"/.peers/node_modules/node-linux-*/bin/node; do [[ -x $own ]] && node=$own; done
python=$here/.peers/venv/bin/python
[[ -x $python ]] || python=python3
js() { local script=$1; shift; exec "$node" --import "$here/loopback-only.mjs" "$here/$script" "$@"; }

run() {
  local name=$1; shift
  case $name in
    pds) js pds.mjs --plc-port $((base)) --pds-port $((base + 1)) "$@" ;;
    jetstream) js jetstream-bridge.mjs --port $((base + 2)) --upstream "http://localhost:$((base + 1))" "$@" ;;
    collectiondir) js collectiondir.mjs --port $((base + 3)) --pds "http://localhost:$((base + 1))" "$@" ;;
    labeler) js labeler.mjs --port $((base + 4)) --control-port $((base + 5)) "$@" ;;
    ozone) js ozone.mjs --port $((base + 9)) --control-port $((base + 10)) "$@" ;;
    stripe) exec "$python" "$here/stripe_local.py" --port $((base + 6)) "$@" ;;
    stripe-mock) js stripe-mock.mjs --port $((base + 7)) "$@" ;;
    judge) js judge.mjs "$@" ;;
    webhooks) exec "$python" "$here/webhook_sink.py" --port $((base + 8)) "$@" ;;
    *) echo "unknown peer: $name" >&2; exit 2 ;;
  esac
}

up() {
  local dir=$1; shift
  mkdir -p "$dir"
  local name extra option given
  for name in "${@:-pds jetstream collectiondir labeler}"; do
    for name in $name; do # the default is one word list
      extra=()
      case $name in
        labeler | ozone) [[ -s $dir/pds.json ]] && extra=(--plc "http://localhost:$base") ;;
        stripe | stripe-mock) extra=(--seed "$here/stripe-seed.json") ;;
      esac
      option=${name^^}; option=PEERS_${option//-/_}_ARGS
      rm -f "$dir/$name.log" # an earlier run's READY must not count
      read -ra given <<<"${!option:-}"
      ( run "$name" "${extra[@]}" "${given[@]}" >"$dir/$name.log" 2>&1 & echo $! >"$dir/$name.pid" )
      local waited=0
      until grep -qs '^READY ' "$dir/$name.log"; do
        kill -0 "$(<"$dir/$name.pid")" 2>/dev/null || { cat "$dir/$name.log" >&2; echo "$name did not start" >&2; return 1; }
        ((++waited > 1200)) && { echo "$name is not ready after 120 s" >&2; return 1; }
        sleep 0.1
      done
      sed -n 's/^READY //p' "$dir/$name.log" >"$dir/$name.json"
      echo "$name is up: $(cut -c1-100 "$dir/$name.json")"
    done
  done
}

down() {
  local dir=$1 f pid; shift
  local files=("$dir"/*.pid)
  (($#)) && files=("${@/#/"$dir/"}") && files=("${files[@]/%/.pid}")
  for f in "${files[@]}"; do
    [[ -e $f ]] || continue
    pid=$(<"$f")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
    rm -f "$f"
  done
}

check() {
  local dir=$1 failed=0
  t() { echo "--- $*"; "$node" --import "$here/loopback-only.mjs" "$here/$1" "${@:2}" || failed=1; }
  [[ -e $dir/pds.pid ]] && t check-pds.mjs "$dir/pds.json"
  [[ -e $dir/collectiondir.pid ]] && t check-collectiondir.mjs "http://localhost:$((base + 3))" "$dir/pds.json"
  [[ -e $dir/labeler.pid ]] && t check-labeler.mjs "$dir/labeler.json" "http://localhost:$base"
  [[ -e $dir/jetstream.pid ]] && t check-jetstream-clients.mjs "ws://localhost:$((base + 2))/subscribe" "$dir/pds.json"
  [[ -n ${JETSTREAM_CORPUS:-} ]] && t check-jetstream-golden.mjs "$JETSTREAM_CORPUS"
  if [[ -e $dir/webhooks.pid ]]; then
    echo "--- check_webhook_sink.py"; "$python" "$here/check_webhook_sink.py" "http://localhost:$((base + 8))" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --no-discord || failed=1
  fi
  return $failed
}

check_v1() { js check-localnet-v1.mjs "$@"; }
check_v2() { exec "$python" "$here/check_jetstream_v2.py" "$@"; }

check_localnet() {
  local dir pid status=0
  dir=$(mktemp -d)
  (cd "$here/../.." && cargo build --quiet -p localnet)
  "${CARGO_TARGET_DIR:-$here/../../target}/debug/localnet" serve >"$dir/localnet.json" 2>"$dir/localnet.log" & pid=$!
  until [[ -s $dir/localnet.json ]]; do
    kill -0 "$pid" 2>/dev/null || { cat "$dir/localnet.log" >&2; return 1; }
    sleep 0.1
  done
  (check_v1 "$dir/localnet.json") || status=1
  (check_v2 "$dir/localnet.json") || status=1
  kill "$pid"; wait "$pid" || true
  rm -rf "$dir"
  return $status
}

case ${1:-} in
  check-localnet) check_localnet ;;
  check-v1) shift; check_v1 "$@" ;;
  check-v2) shift; check_v2 "$@" ;;
  run) shift; run "$@" ;;
  up) shift; up "$@" ;;
  check) shift; check "$@" ;;
  seed) shift; js seed.mjs "$@" ;;
  down) shift; down "$@" ;;
  verify-token) shift; js verify-token.mjs "$@" ;;
  *) sed -n '2,25p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
