# Runs in the pod: puts the script into a file, opens its output files, runs it, and hands on its exit code.
# What the site runs in each pod before and after a job (Prolog, Epilog of slurm.conf), here as the job's user.
if [ -n "$PHALANX_PROLOG" ]; then
    "$PHALANX_PROLOG" > /dev/null 2>&1 || { echo "prolog failed: $PHALANX_PROLOG gave exit code $?" >&2; exit 1; }
fi
# _await PID: wait for a child, and put its exit code into _code. A signal that is trapped ends `wait` as well, with the
# signal's code, so it is waited again: traps set _caught. 127 then says that the child's own code was known before.
_await() {
    _code= _caught=1
    while [ -n "$_caught" ]; do
        _caught=
        wait "$1"; _now=$?
        [ "$_now" = 127 ] && [ -n "$_code" ] || _code=$_now
    done
}
_epilog=$PHALANX_EPILOG
[ -n "$_epilog" ] && trap '"$_epilog" > /dev/null 2>&1' EXIT
# Pods other than the first, and those of an allocation without a script, only hold their part and run steps.
if [ "${JOB_COMPLETION_INDEX:-0}" != 0 ] || [ -z "$PHALANX_SCRIPT" ]; then
    if [ -n "$PHALANX_PYTHON" ]; then
        [ -z "$_epilog" ] && eval "exec $PHALANX_PYTHON.stepd hold"
        eval "$PHALANX_PYTHON.stepd hold" & _stepd=$!
        trap '_caught=1; kill -TERM $_stepd 2> /dev/null' TERM
        _await $_stepd
        exit $_code
    fi
    trap 'exit 0' TERM
    while :; do sleep 3600 & wait $!; done
fi
_err() { printf 'slurmstepd-%s: error: %s\n' "$SLURMD_NODENAME" "$1"; }
# As in Slurm, TMPDIR always exists for the script.
_told_tmp= _tmp=${TMPDIR:-/tmp}
if [ ! -d "$_tmp" ] && ! _why=$(mkdir -m 700 "$_tmp" 2>&1); then
    _told_tmp=$(_err "Unable to create TMPDIR [$_tmp]: ${_why##*: }"; _err "Setting TMPDIR to /tmp")
    _tmp=/tmp
fi
export TMPDIR="$_tmp"
# A job of a moment on one node is over before anybody could speak to its daemon, which costs more than the job.
_later=
[ "$SLURM_JOB_NUM_NODES" = 1 ] && [ -z "$PHALANX_WARNING$SLURM_HET_SIZE" ] && _later='sleep 1;'
[ -n "$PHALANX_PYTHON" ] && { eval "$_later exec $PHALANX_PYTHON.stepd batch" & _stepd=$!; }
# Each program that runs here takes a millisecond of every job, so the shell does what it can by itself.
_steps=$TMPDIR/phalanx-slurm-steps-${SLURM_JOB_UID:-$(id -u)}/$SLURM_JOB_ID
[ -e "$_steps" ] && rm -f "$_steps"  # of another cluster's job of that number
_folder=$(umask 077; mktemp -d "$TMPDIR/phalanx-slurm.XXXXXX") || exit 1
trap 'rm -rf "$_folder"; [ -n "$_epilog" ] && "$_epilog" > /dev/null 2>&1' EXIT
printf '%s' "$PHALANX_SCRIPT" 2> /dev/null > "$_folder/slurm_script" || {
    _err "the script cannot be written to $_folder: no space left there?" >&2; exit 1
}
chmod 700 "$_folder/slurm_script"
if [ "$SLURM_JOB_NUM_NODES" != 1 ] && [ -n "$PHALANX_PYTHON" ]; then
    SLURM_JOB_NODELIST=$(eval "$PHALANX_PYTHON.nodelist $SLURM_JOB_ID")
fi
if [ -n "$SLURM_HET_SIZE" ] && [ -n "$PHALANX_PYTHON" ]; then
    eval "$(eval "$PHALANX_PYTHON.nodelist $SLURM_JOB_ID $SLURM_HET_SIZE")"
fi
eval "_restarts=\$PHALANX_RESTARTS_$SLURM_JOB_ID; unset PHALANX_RESTARTS_$SLURM_JOB_ID"
[ -n "$_restarts" ] && export SLURM_RESTART_COUNT="$_restarts"
_mail=$PHALANX_MAIL _mail_to=$PHALANX_MAIL_TO _mail_when=$PHALANX_MAIL_WHEN
unset PHALANX_MAIL PHALANX_MAIL_TO PHALANX_MAIL_WHEN PHALANX_PROLOG PHALANX_EPILOG
_seconds() { printf '%02d:%02d:%02d' $(($1 / 3600)) $(($1 / 60 % 60)) $(($1 % 60)); }
# _tell WHEN WORDS: a mail, if the job wants one then.
_tell() {
    case ",$_mail_when," in *",$1,"*) ;; *) return ;; esac
    "$_mail" -s "Slurm Job_id=$SLURM_JOB_ID Name=$SLURM_JOB_NAME $2" "$_mail_to" < /dev/null > /dev/null 2>&1
}
[ -n "$PHALANX_PATH" ] && export PATH="$PHALANX_PATH:${PATH:-/usr/local/bin:/usr/bin:/bin}"
umask "${PHALANX_UMASK:-022}"
unset PHALANX_UMASK PHALANX_STEP_KEY PHALANX_POD_IP PHALANX_POD_NAME PHALANX_PYTHON PHALANX_PATH PHALANX_WARNING _later
if ! cd "$PHALANX_WORKDIR" 2> /dev/null; then
    _moved=$(_err "couldn't chdir to \`$PHALANX_WORKDIR': No such file or directory: going to /tmp instead")
    cd /tmp || exit 1
fi
# _named PATH: put the path into _path, with the name of the node in place of each mark.
_mark=$(printf '\001N')
_named() {
    _left=$1 _path=
    while [ "$_left" != "${_left#*"$_mark"}" ]; do
        _path=$_path${_left%%"$_mark"*}${SLURMD_NODENAME%%.*} _left=${_left#*"$_mark"}
    done
    _path=$_path$_left
}
_named "$PHALANX_STDOUT"; _out=$_path
_named "$PHALANX_STDERR"; _errfile=$_path
_in=$PHALANX_STDIN _limit=$PHALANX_LIMIT_S
SLURM_JOB_NODELIST=${SLURM_JOB_NODELIST:-$SLURMD_NODENAME}
SLURM_NODELIST=$SLURM_JOB_NODELIST
SLURM_TOPOLOGY_ADDR=$SLURMD_NODENAME
if [ -n "$CUDA_VISIBLE_DEVICES" ] && [ -n "$SLURM_GPUS_ON_NODE" ]; then
    SLURM_JOB_GPUS=$CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL=$CUDA_VISIBLE_DEVICES
    export SLURM_JOB_GPUS GPU_DEVICE_ORDINAL
fi
export SLURM_JOB_NODELIST SLURM_NODELIST SLURM_TOPOLOGY_ADDR
# Clients make the folder of their outputs once sbatch has answered (submitit does): a job may start before that here.
_tries=20
case "$_out" in */*) _parent=${_out%/*}/ ;; *) _parent=. ;; esac
while [ "$_tries" -gt 0 ] && [ ! -d "$_parent" ]; do sleep 0.1; _tries=$((_tries - 1)); done
# 181 becomes 0:53, Slurm's code for files that cannot be opened.
_opens() { (: >> "$1") 2> /dev/null || { _err "Could not open file $1"; exit 181; }; }
_opens "$_out"; [ -n "$_errfile" ] && _opens "$_errfile"
if [ "$PHALANX_MODE" = append ]; then exec 4>> "$_out" || exit 1; else exec 4> "$_out" || exit 1; fi
# One file for both is opened once: two positions in it would write over each other.
if [ -z "$_errfile" ] || [ "$_errfile" -ef "$_out" ]; then exec 5>&4
elif [ "$PHALANX_MODE" = append ]; then exec 5>> "$_errfile" || exit 1
else exec 5> "$_errfile" || exit 1; fi
(: < "$_in") 2> /dev/null || exit 181
exec 3< "$_in" || exit 1
[ -n "$_told_tmp" ] && printf '%s\n' "$_told_tmp" >&5
[ -n "$_moved" ] && printf '%s\n' "$_moved" >&5
_interpreter=
IFS= read -r _first < "$_folder/slurm_script"
case "$_first" in '#!'*)
    _first=${_first#??}
    _first=${_first#"${_first%%[! ]*}"}
    _interpreter=${_first%% *} ;;
esac
if [ -n "$_interpreter" ] && [ ! -e "$_interpreter" ]; then
    _err "execve(): bad interpreter($_interpreter): No such file or directory" >&5
    [ -n "$_stepd" ] && kill -KILL "$_stepd" 2> /dev/null
    exit 2
fi
unset PHALANX_SCRIPT PHALANX_WORKDIR PHALANX_STDOUT PHALANX_STDERR PHALANX_STDIN PHALANX_LAUNCHER JOB_COMPLETION_INDEX
unset PHALANX_MODE PHALANX_LIMIT_S
[ -n "$PHALANX_NO_HOME" ] && unset HOME PHALANX_NO_HOME
SLURM_TASK_PID=$$ "$_folder/slurm_script" "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&- &
_child=$!
_began=0
if [ "${_limit:-0}" -gt 0 ] || [ -n "$_mail" ]; then _began=$(date +%s); fi
_tell BEGIN Began
_stop() {
    _caught=1 _why=$_cause
    [ -z "$_why" ] && [ "${_limit:-0}" -gt 0 ] && [ $(($(date +%s) - _began)) -ge $((_limit - 1)) ] && _why=" DUE TO TIME LIMIT"
    _err "*** JOB $SLURM_JOB_ID ON $SLURMD_NODENAME CANCELLED AT $(date +%Y-%m-%dT%H:%M:%S)$_why ***" >&5
    kill -TERM $_child 2> /dev/null
}
trap _stop TERM
trap '_caught=1 _cause=${_cause:-" DUE TO JOB REQUEUE"}' HUP
trap '_caught=1 _cause=" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS"' QUIT
_await $_child
if [ -n "$_mail" ]; then
    _time="Run time $(_seconds $(($(date +%s) - _began)))"
    if [ "$_code" = 0 ]; then _tell END "Ended, $_time, COMPLETED, ExitCode 0"
    else _tell FAIL "Failed, $_time, FAILED, ExitCode $_code"; fi
fi
[ -n "$_stepd" ] && kill -KILL "$_stepd" 2> /dev/null
exit $_code
