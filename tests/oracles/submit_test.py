"""What `lockstep submit` prints, read by PyYAML and checked as bash: whole objects that belong together."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.path.join(os.environ["LOCKSTEP_BIN"], "lockstep")
RUN = """# a comment: with a colon
[run]
name = "Tiny_Run"
steps = 6

[model]
family = "mlp"
layers = 1
width = 16
inputs = 8
classes = 4

[data]
format = "synthetic"
\ttrain_samples = 512

[batch]
micro_batch = 8
"""
# Debian's Python has python3-yaml; the Python with torch has not.
TO_JSON = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"


class Submit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_file = pathlib.Path(folder.name) / "run.toml"
        self.run_file.write_text(RUN)

    def printed(self, kind, *more):
        return subprocess.run([PROGRAM, "submit", "--print", kind, self.run_file, *more], check=True,
                              capture_output=True, text=True).stdout

    def objects(self, kind, *more):
        document = subprocess.run(["/usr/bin/python3", "-c", TO_JSON], check=True, capture_output=True, text=True,
                                  input=self.printed(kind, *more)).stdout
        return {one["kind"]: one for one in json.loads(document)}

    def check_pod(self, pod, objects, words):
        container, = pod["containers"]
        self.assertEqual(container["command"][:3], ["lockstep", "train", "/etc/lockstep/run.toml"])
        self.assertEqual(container["command"][-len(words):], words)
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, set(volumes))
        name = objects["ConfigMap"]["metadata"]["name"]
        self.assertEqual(volumes["run"]["configMap"]["name"], name)
        self.assertEqual(objects["ConfigMap"]["data"]["run.toml"], RUN)
        if "Secret" in objects:
            self.assertEqual(volumes["secret"]["secret"], {"secretName": name, "defaultMode": 0o400})
            self.assertEqual(len(bytes.fromhex(objects["Secret"]["stringData"]["secret"])), 32)
        self.assertEqual(volumes["shm"]["emptyDir"]["medium"], "Memory")
        for value in container.get("env", []):
            self.assertIsInstance(value["value"], str)
        return {value["name"]: value["value"] for value in container.get("env", [])}

    def test_indexed_job(self):
        objects = self.objects("k8s", "--nnodes", "3", "--nproc-per-node", "2", "--set", "optimizer.lr=0.05")
        self.assertEqual(set(objects), {"Service", "Secret", "ConfigMap", "Job"})
        job = objects["Job"]
        self.assertEqual(job["metadata"]["name"], "tiny-run")
        self.assertEqual((job["spec"]["completions"], job["spec"]["parallelism"]), (3, 3))
        pod = job["spec"]["template"]["spec"]
        self.assertEqual(pod["subdomain"], objects["Service"]["metadata"]["name"])
        self.assertEqual(objects["Service"]["spec"]["selector"], {"job-name": "tiny-run"})
        env = self.check_pod(pod, objects, ["--set", "optimizer.lr=0.05"])
        self.assertEqual(env["PET_NNODES"], "3")
        self.assertEqual(env["PET_RDZV_ENDPOINT"], "tiny-run-0.tiny-run:29400")

    def test_one_pod(self):
        objects = self.objects("k8s")
        self.assertEqual(set(objects), {"ConfigMap", "Job"})
        self.assertEqual(self.check_pod(objects["Job"]["spec"]["template"]["spec"], objects, ["/runs/tiny-run"]), {})

    def test_pytorch_job(self):
        objects = self.objects("pytorchjob", "--nnodes", "3", "--nproc-per-node", "2")
        self.assertEqual(set(objects), {"Secret", "ConfigMap", "PyTorchJob"})
        spec = objects["PyTorchJob"]["spec"]
        self.assertEqual(spec["nprocPerNode"], "2")
        replicas = spec["pytorchReplicaSpecs"]
        self.assertEqual({role: one["replicas"] for role, one in replicas.items()}, {"Master": 1, "Worker": 2})
        for one in replicas.values():
            self.assertEqual(one["template"]["spec"]["containers"][0]["name"], "pytorch")
            env = self.check_pod(one["template"]["spec"], objects, ["/runs/tiny-run"])
            self.assertEqual(env["PET_RDZV_ENDPOINT"], "tiny-run-master-0:29400")
        self.assertEqual(set(self.objects("pytorchjob")["PyTorchJob"]["spec"]["pytorchReplicaSpecs"]), {"Master"})

    def test_slurm_script_is_bash(self):
        script = self.printed("slurm", "--run-dir", "/runs/it's mine")
        subprocess.run(["bash", "-n"], check=True, input=script, text=True)


if __name__ == "__main__":
    unittest.main()
