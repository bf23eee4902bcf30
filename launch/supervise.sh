#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a training, and starts it again after an end that a restart may cure (docs/exit-codes.md); it resumes from its newest checkpoint.
# Usage: launch/supervise.sh [OPTION VALUE]... [--] COMMAND...     such as: launch/supervise.sh -- mpirun -np 4 ventris train ...
#   --max-restarts N      restarts without a new checkpoint before it gives up; default: 10
#   --back-off S          seconds before the first restart, doubled for each further one up to 300; default: 5
#   --launcher-timeout S  seconds that mpirun may live on without a process on this host; 0: no limit; default: 20
#   --model-dir DIR       run folder; default: --model-dir of the command or of the file of its --config
# SIGTERM, SIGINT, SIGHUP (not under nohup) and SIGUSR1 reach the command as SIGUSR1: ventris saves, mpirun waits for it, and the exit code
# is 75. A second SIGTERM or SIGINT reaches it as SIGTERM. If this script is killed, the command gets SIGUSR1.
set -uo pipefail
exec {messages}>&2  # a signal may come where 2 is /dev/null
log() { printf '%(%F %T)T  supervise: %s\n' -1 "$*" >&"$messages"; }
refuse() { printf 'error: supervise: %s\n' "$2" >&2 && exit "$1"; }

# value_in OPTION WORD...: the value of an option in a command.
value_in() {
  local option=$1
  while shift && (($# > 0)); do
    if [[ $1 == "$option" || $1 == "$option="* ]]; then [[ $1 == *=* ]] && printf '%s' "${1#*=}" || printf '%s' "${2-}"; fi
  done
}

max_restarts=10 back_off=5 launcher_timeout=20 folder='' config=''
while (($# > 0)); do
  case $1 in
    --) shift && break ;;
    --help) sed -n '3,10s/^# \?//p' "${BASH_SOURCE[0]}" && exit 0 ;;
    --max-restarts | --back-off | --launcher-timeout)
      [[ ${2-} =~ ^[0-9]+(\.[0-9]+)?$ ]] || refuse 64 "$1 needs a number, but got '${2-}'"
      case $1 in --max*) max_restarts=${2%.*} ;; --back*) back_off=$2 ;; *) launcher_timeout=${2%.*} ;; esac
      shift 2 ;;
    --model-dir) [[ -n ${2-} ]] || refuse 64 "$1 needs a value: DIR" && folder=$2 && shift 2 ;;
    -*) refuse 64 "unknown option $1; --help lists them, and the command follows after --" ;;
    *) break ;;
  esac
done
(($# > 0)) || refuse 64 "no command given; give it after '--'"
command -v -- "$1" >/dev/null || refuse 66 "cannot start $1: there is no such program"
[[ -n $folder ]] || folder=$(value_in --model-dir "$@") config=$(value_in --config "$@")
if [[ -z $folder && -f $config ]]; then folder=$(sed -nE 's/^ *"?model[-_]dir"? *[=:] *"?([^"]*[^",])"?,?$/\1/p' "$config"); fi
[[ -n $folder ]] || log "the command names no run folder, so new checkpoints cannot be seen; name it with --model-dir"
# Open MPI 4 would sleep twice this many seconds between the end of one rank and that of the others.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout-0}
if setpriv --pdeathsig USR1 true 2>/dev/null; then at_our_death=(setpriv --pdeathsig USR1); else at_our_death=(); fi
# Reads status.json of the run folder. From here on no command is substituted while a signal may come: bash 5.2 loses a trap within $().
declare -A status names has_child
read_status() {
  status=()
  [[ -f $folder/status.json ]] || return  # nor a pipe, for which it would wait
  while read -r line; do
    if [[ $line =~ ^\"([a-z_]+)\":\ \"?(.*[^\",])\"?,?$ ]]; then status[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}; fi
  done 2>/dev/null <"$folder/status.json"
}

# The living processes of the command, which are those of its session: their names, and those that have children.
look_at_processes() {
  local file line name state parent session
  names=() has_child=()
  for file in /proc/[0-9]*/stat; do
    { read -r line <"$file"; } 2>/dev/null || continue
    read -r state parent _ session _ <<<"${line##*) }"
    [[ $session == "$process" && $state != Z ]] || continue
    name=${line#*\(} name=${name%)*}
    names[${line%% *}]=$name has_child[$parent]=1
    if [[ $name == ventris* ]]; then seen=1; fi
  done
}

# Kills a launcher that lives on after its ranks on this host, as Open MPI 4 sometimes does, unless rank 0 may run elsewhere.
end_idle_launcher() {
  local pid
  look_at_processes
  for pid in "${!names[@]}"; do
    [[ ${names[$pid]} =~ ^(mpirun|mpiexec|orterun|prterun)$ ]] || continue
    if [[ ${has_child[$pid]-} || -z $seen$began ]]; then idle_since=$SECONDS; fi
    ((SECONDS - idle_since > launcher_timeout)) || continue
    if [[ $began && ${status[state]-} == running && (${status[host]-} != "$HOSTNAME" || ${names[${status[pid]-0}]-}) ]]; then continue; fi
    log "the launcher, process $pid, has had no rank on this host for $launcher_timeout s; it is killed"
    kill -KILL "$pid" && hung=1
  done
}

# Ends what the command left, and removes what killed jobs of Open MPI left on this host.
clean_up() {
  local path tries removed=()
  look_at_processes
  if ((${#names[@]} > 0)); then kill -KILL "${!names[@]}" && log "ended ${#names[@]} processes left by the command: ${!names[*]}"; fi
  for ((tries = 0; tries < 200 && ${#names[@]} > 0; ++tries)); do sleep 0.05; look_at_processes; done  # what they map is in use
  for path in /dev/shm/vader_segment.* "${TMPDIR:-/tmp}/ompi.${HOSTNAME%%.*}.$EUID"/pid.*; do
    if [[ ! -O $path || -d $path && -d /proc/${path##*.} ]] || grep -qsF "$path" /proc/[0-9]*/maps; then continue; fi
    rm -rf "$path" && removed+=("$path")
  done
  if ((${#removed[@]} > 0)); then log "removed leftovers of killed jobs: ${removed[*]}"; fi
}

# forward SIGNAL: mpirun forwards SIGUSR1 and waits; on SIGTERM and SIGINT it leaves its ranks no time to save.
forward() {
  if [[ $stopped && $1 =~ ^(TERM|INT)$ ]]; then passed=TERM; else passed=USR1; fi
  stopped=$1 repeat_after=$((SECONDS + 1)) repeat_pause=1
  if [[ $running ]]; then kill "-$passed" "$process"; log "received SIG$1; forwarded as SIG$passed"; fi
}

# Runs the command; sets `code`, and `began` if training began.
attempt() {
  before=${status[started]-}${status[pid]-} hung='' began='' seen='' idle_since=$SECONDS
  setsid "${at_our_death[@]}" "$@" &
  process=$! running=1
  log "started $* as process $process"
  while kill -0 "$process" 2>/dev/null; do
    sleep 0.5 >/dev/null 2>&1 & wait -n "$process" $! 2>/dev/null
    read_status
    [[ ${status[started]-}${status[pid]-} == "$before" ]] || began=1 ever_began=1
    if ((launcher_timeout > 0)); then end_idle_launcher; fi
    if [[ $passed == USR1 ]] && ((SECONDS >= repeat_after)); then  # mpirun drops it before its ranks have started
      repeat_after=$((SECONDS + (repeat_pause *= 2))) && kill -USR1 "$process" 2>/dev/null
    fi
  done
  wait "$process" 2>/dev/null; code=$? running=''
  clean_up
  read_status
  if [[ $hung && $began && $code == 137 && ${status[state]-} != running ]]; then code=${status[exit_code]-137}; fi
}

process='' running='' seen='' stopped='' passed='' ever_began='' restarts=0 code=0
mapfile -t signals < <(kill -l | grep -oE 'SIG[A-Z0-9]+')
mapfile -t pauses < <(awk -v s="$back_off" 'BEGIN { for (; ++n < 32; s = 2 * s) printf "%g\n", s < 300 ? s : 300 }')
read_status
saved=${status[last_checkpoint]-}
trap 'forward TERM' TERM && trap 'forward INT' INT && trap 'forward HUP' HUP && trap 'forward USR1' USR1 && trap : PIPE
while :; do
  attempt "$@"
  ((code != 0)) || exit 0
  reason="the command ended with $code"
  if ((code > 128)); then reason+=" (${signals[code - 129]-})"; fi
  if [[ $began ]]; then reason+="; ${status[state]-} at step ${status[step]-}: ${status[message]-}"; fi
  case $code in
    69 | 74 | 75) true ;;
    76) [[ $began ]] ;;  # before, files or options of the ranks differ
    *) ((code > 128)) || { ((code < 64)) && [[ $ever_began || $stopped ]]; } ;;  # below 64: of a launcher
  esac || { log "giving up: $reason"; exit "$code"; }
  if [[ $stopped ]]; then log "$reason; stopped on request, the same command resumes training"; exit 75; fi
  if [[ ${status[last_checkpoint]-} > $saved ]]; then saved=${status[last_checkpoint]} restarts=0; fi
  ((restarts < max_restarts)) || { log "giving up after $restarts restarts without a new checkpoint: $reason"; exit "$code"; }
  pause=${pauses[restarts]-300}
  log "$reason; restart $((++restarts)) of $max_restarts in $pause s"
  sleep "$pause" >/dev/null 2>&1 &
  [[ $stopped ]] || wait $!
  if [[ $stopped ]]; then kill $! 2>/dev/null; log "stopped on request (SIG$stopped) before the restart"; exit 75; fi
done
