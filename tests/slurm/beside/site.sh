# Starts a real Slurm, or Phalanx, as the site of tests/slurm/beside: four nodes cn1 to cn4, three users, two accounts.
# site.sh theirs|ours DIRECTORY PHALANX_BIN, as root, in namespaces of its own: nothing outside them is changed.
set -e
side=$1 S=$2 P=$3
case $S in /SITE/?*) rm -rf "$S" ;; *) echo "$S is not below /SITE" >&2; exit 1 ;; esac
mkdir -p "$S" /etc/slurm
cat > "$S/slurm.conf" << END
ClusterName=beside
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=slurm
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=$S/slurmctld.log
SlurmdLogFile=$S/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=bf_interval=2,sched_interval=5,batch_sched_delay=1
PriorityType=priority/multifactor
PriorityWeightAge=1000
PriorityWeightJobSize=1000
PriorityWeightPartition=2000
PriorityWeightQOS=3000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
FirstJobId=710001
ReturnToService=1
KillWait=3
MailProg=/bin/true
GresTypes=gpu
NodeName=cn[1-2] NodeHostname=ctl NodeAddr=127.0.0.1 Port=[17001-17002] CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 Feature=fast
NodeName=cn[3-4] NodeHostname=ctl NodeAddr=127.0.0.1 Port=[17003-17004] CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 Feature=big Gres=gpu:4
PartitionName=batch Nodes=cn[1-4] Default=YES MaxTime=7-0 DefaultTime=1:00:00 State=UP DefMemPerCPU=1000 PriorityJobFactor=10
PartitionName=short Nodes=cn[1-2] MaxTime=10 DefaultTime=5 State=UP DefMemPerCPU=1000 PriorityJobFactor=30
PartitionName=priv Nodes=cn[3-4] AllowAccounts=chem MaxTime=INFINITE State=UP DefMemPerCPU=1000
PartitionName=closed Nodes=cn4 MaxTime=1:00:00 State=DOWN DefMemPerCPU=1000
END
accounts() {
    sacctmgr -i add account physics fairshare=40
    sacctmgr -i add account chem fairshare=60
    sacctmgr -i add qos fast priority=100
    sacctmgr -i modify qos normal set priority=50
    sacctmgr -i add user u1 account=physics qos=normal,fast
    sacctmgr -i add user u2 account=chem qos=normal,fast
    sacctmgr -i add user u2 account=physics
}
until_true() { for _ in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done; echo "in vain: $*" >&2; exit 1; }
if [ "$side" = theirs ]; then
    cp "$S/slurm.conf" /etc/slurm/slurm.conf
    mkdir -p "$S/state" "$S/db" "$S/dev" /run/munge /run/mysqld
    for number in 0 1 2 3; do [ -e "$S/dev/nvidia$number" ] || mknod "$S/dev/nvidia$number" c 1 3; done
    echo "NodeName=cn[3-4] Name=gpu File=$S/dev/nvidia[0-3]" > /etc/slurm/gres.conf
    printf 'AuthType=auth/munge\nDbdHost=localhost\nDbdAddr=127.0.0.1\nSlurmUser=slurm\nLogFile=%s/slurmdbd.log\nPidFile=/run/slurmdbd.pid\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort=13306\nStorageUser=slurm\nStoragePass=beside\n' "$S" > /etc/slurm/slurmdbd.conf
    chown slurm /etc/slurm/slurmdbd.conf "$S" "$S/state"; chmod 600 /etc/slurm/slurmdbd.conf
    chown munge /run/munge; chown mysql "$S/db" /run/mysqld
    su -s /bin/sh munge -c '/usr/sbin/munged --force' < /dev/null
    [ -d "$S/db/mysql" ] || mariadb-install-db --user=mysql --datadir="$S/db" > /dev/null
    mariadbd --no-defaults --user=mysql --datadir="$S/db" --port=13306 --bind-address=127.0.0.1 --socket=/run/mysqld/beside.sock > "$S/mariadb.log" 2>&1 < /dev/null &
    until_true mariadb --no-defaults -S /run/mysqld/beside.sock -e 'select 1'
    mariadb --no-defaults -S /run/mysqld/beside.sock -e "create database if not exists slurm_acct_db; create user if not exists slurm@'127.0.0.1' identified by 'beside'; create user if not exists slurm@localhost identified by 'beside'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'; grant all on slurm_acct_db.* to slurm@localhost;"
    slurmdbd
    until_true sacctmgr -n list cluster
    sacctmgr -i add cluster beside || true
    accounts || true
    slurmctld
    for number in 1 2 3 4; do mkdir -p "$S/spool/cn$number"; slurmd -N "cn$number"; done
    until_true sh -c '[ "$(sinfo -h -o %T -p batch)" = idle ]'
else
    "$P/phalanx" up --shared --no-local-node --data "$S/data" --port 0 > "$S/up.log" 2>&1 < /dev/null &
    export KUBECONFIG=$S/data/kubeconfig
    until_true "$P/phalanx" status
    for number in 1 2 3 4; do
        gpus=; [ "$number" -ge 3 ] && gpus="--capacity nvidia.com/gpu=4"
        "$P/python" -m phalanx.embedded.node --kubeconfig "$KUBECONFIG" --data "$S/cn$number" --name "cn$number" --capacity cpu=16 --capacity memory=64000Mi $gpus > "$S/cn$number.log" 2>&1 < /dev/null &
        until_true sh -c "'$P/phalanx' nodes | grep -q cn$number"
    done
    "$P/phalanx" slurm install "$S/bin"
    "$P/phalanx" slurm configure "$S/slurm.conf" > /dev/null
    PATH=$S/bin:$PATH accounts
    for user in u1 u2 u3; do env -u KUBECONFIG su "$user" -c "cd; '$P/phalanx' login"; done
    mkdir -p /root/.kube; cp "$KUBECONFIG" /root/.kube/config
fi
