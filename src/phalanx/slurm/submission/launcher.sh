# Runs in the pod: puts the script into a file, opens its output files, runs it, and hands on its exit code.
# Pods other than the first, and those of an allocation without a script, only hold their part and run steps.
if [ "${JOB_COMPLETION_INDEX:-0}" != 0 ] || [ -z "$PHALANX_SCRIPT" ]; then
    [ -n "$PHALANX_PYTHON" ] && eval "exec $PHALANX_PYTHON.stepd hold"
    trap 'exit 0' TERM
    while :; do sleep 3600 & wait $!; done
fi
_err() { printf 'slurmstepd-%s: error: %s\n' "$SLURMD_NODENAME" "$1"; }
# A job of a moment on one node is over before anybody could speak to its daemon, which costs more than the job.
_later=
[ "$SLURM_JOB_NUM_NODES" = 1 ] && [ -z "$PHALANX_WARNING" ] && _later='sleep 1;'
[ -n "$PHALANX_PYTHON" ] && { eval "$_later exec $PHALANX_PYTHON.stepd batch" & _stepd=$!; }
_folder=$(umask 077; mktemp -d "${TMPDIR:-/tmp}/phalanx-slurm.XXXXXX") || exit 1
printf '%s' "$PHALANX_SCRIPT" > "$_folder/slurm_script" || exit 1
chmod 700 "$_folder/slurm_script"
if [ "$SLURM_JOB_NUM_NODES" != 1 ] && [ -n "$PHALANX_PYTHON" ]; then
    SLURM_JOB_NODELIST=$(eval "$PHALANX_PYTHON.nodelist $SLURM_JOB_ID")
fi
eval "_restarts=\$PHALANX_RESTARTS_$SLURM_JOB_ID; unset PHALANX_RESTARTS_$SLURM_JOB_ID"
[ -n "$_restarts" ] && export SLURM_RESTART_COUNT="$_restarts"
unset PHALANX_STEP_KEY PHALANX_POD_IP PHALANX_PYTHON PHALANX_WARNING _later
if ! cd "$PHALANX_WORKDIR" 2> /dev/null; then
    _moved=$(_err "couldn't chdir to \`$PHALANX_WORKDIR': No such file or directory: going to /tmp instead")
    cd /tmp || exit 1
fi
_out=$(printf '%s' "$PHALANX_STDOUT" | sed "s/\x01N/${SLURMD_NODENAME%%.*}/g")
_errfile=$(printf '%s' "$PHALANX_STDERR" | sed "s/\x01N/${SLURMD_NODENAME%%.*}/g")
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
while [ "$_tries" -gt 0 ] && [ ! -d "$(dirname -- "$_out")" ]; do sleep 0.1; _tries=$((_tries - 1)); done
if [ "$PHALANX_MODE" = append ]; then exec 4>> "$_out" || exit 1; else exec 4> "$_out" || exit 1; fi
if [ -z "$_errfile" ]; then exec 5>&4
elif [ "$PHALANX_MODE" = append ]; then exec 5>> "$_errfile" || exit 1
else exec 5> "$_errfile" || exit 1; fi
exec 3< "$_in" || exit 1
[ -n "$_moved" ] && printf '%s\n' "$_moved" >&5
_interpreter=$(sed -n '1s/^#! *\([^ ]*\).*/\1/p' "$_folder/slurm_script")
if [ -n "$_interpreter" ] && [ ! -e "$_interpreter" ]; then
    _err "execve(): bad interpreter($_interpreter): No such file or directory" >&5
    rm -rf "$_folder"
    [ -n "$_stepd" ] && kill -KILL "$_stepd" 2> /dev/null
    exit 2
fi
unset PHALANX_SCRIPT PHALANX_WORKDIR PHALANX_STDOUT PHALANX_STDERR PHALANX_STDIN PHALANX_LAUNCHER JOB_COMPLETION_INDEX
unset PHALANX_MODE PHALANX_LIMIT_S
[ -n "$PHALANX_NO_HOME" ] && unset HOME PHALANX_NO_HOME
SLURM_TASK_PID=$$ "$_folder/slurm_script" "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&- &
_child=$!
_began=$(date +%s)
_stop() {
    _why=$_cause
    [ -z "$_why" ] && [ "${_limit:-0}" -gt 0 ] && [ $(($(date +%s) - _began)) -ge $((_limit - 1)) ] && _why=" DUE TO TIME LIMIT"
    _err "*** JOB $SLURM_JOB_ID ON $SLURMD_NODENAME CANCELLED AT $(date +%Y-%m-%dT%H:%M:%S)$_why ***" >&5
    kill -TERM $_child 2> /dev/null
}
trap _stop TERM
trap '_cause=" DUE TO JOB REQUEUE"' HUP
while :; do
    wait $_child
    _code=$?
    kill -0 $_child 2> /dev/null || break
done
rm -rf "$_folder"
[ -n "$_stepd" ] && kill -KILL "$_stepd" 2> /dev/null
exit $_code
