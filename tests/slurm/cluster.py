"""A Slurm of this user on this machine: munged, slurmctld and slurmd in a scratch folder, one node of it."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

CONF = """ClusterName=scratch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A job that is requeued waits as long as its credential lives.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,defer_batch
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 Port={node} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Use as `with Cluster() as cluster:`; cluster.env is for srun, sbatch and scontrol."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-slurm-"))
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        controller, node = free_ports(2)
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(folder=self.folder, controller=controller, node=node, host=socket.gethostname(),
                                    cpus=max(2, os.cpu_count() or 1),
                                    user=subprocess.run(["id", "-un"], capture_output=True, text=True,
                                                        check=True).stdout.strip()))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # without one slurmd looks for systemd
        self.env = dict(os.environ, SLURM_CONF=str(conf))
        self.serve("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        self.until(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.serve("slurmctld", "-D", "-f", str(conf))
        self.serve("slurmd", "-D", "-f", str(conf), "-N", socket.gethostname())
        self.until(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%t"), "an idle node")

    def serve(self, name, *arguments):
        with (self.folder / f"{name}.out").open("wb") as out:
            self.processes.append(subprocess.Popen([f"/usr/sbin/{name}", *arguments], env=self.env, stdout=out, stderr=out))

    def ask(self, *argv):
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False).stdout

    def until(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {seconds} s\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        return "".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}\n"
                       for path in sorted(self.folder.glob("*")) if path.suffix in (".log", ".out"))

    def job_state(self, job):
        for field in self.ask("scontrol", "show", "job", job).split():
            if field.startswith("JobState="):
                return field.removeprefix("JobState=")
        return "unknown"

    def __exit__(self, *_):
        self.ask("scancel", "--user", str(os.getuid()))
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
