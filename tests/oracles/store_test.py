"""PyTorch's TCPStore clients, both of them, against our server (store_server_main.cpp, on PATH)."""

import datetime
import subprocess
import sys
import threading
import unittest

import torch.distributed as dist


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(["store_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline())

    def tearDown(self):
        self.server.stdin.close()
        self.assertEqual(self.server.wait(timeout=10), 0)
        self.server.stdout.close()

    def client(self, use_libuv, world_size=None, wait=False):
        return dist.TCPStore(
            "127.0.0.1", self.port, world_size, False, use_libuv=use_libuv,
            timeout=datetime.timedelta(seconds=10), wait_for_workers=wait)

    def each_client(self):
        return [(self.client(use_libuv), f"libuv={use_libuv}/") for use_libuv in (True, False)]

    def test_keys(self):
        for store, p in self.each_client():
            store.set(p + "k", "value")
            self.assertEqual(store.get(p + "k"), b"value")
            self.assertEqual(store.add(p + "n", 5), 5)
            self.assertEqual(store.add(p + "n", -7), -2)
            self.assertEqual(store.get(p + "n"), b"-2")
            self.assertEqual(store.compare_set(p + "c", "", "a"), b"a")
            self.assertEqual(store.compare_set(p + "c", "x", "b"), b"a")
            self.assertEqual(store.compare_set(p + "c", "a", "b"), b"b")
            self.assertEqual(store.compare_set(p + "missing", "x", "y"), b"x")
            self.assertTrue(store.check([p + "k", p + "n"]))
            self.assertFalse(store.check([p + "k", p + "none"]))
            store.append(p + "k", "+more")
            self.assertEqual(store.get(p + "k"), b"value+more")
            self.assertTrue(store.delete_key(p + "k"))
            self.assertFalse(store.delete_key(p + "k"))
            mine = [key for key in store.list_keys() if key.startswith(p)]
            self.assertEqual(sorted(mine), [p + "c", p + "n"])

    def test_the_number_of_keys_counts_what_users_set(self):
        for store, p in self.each_client():
            before = store.num_keys()
            store.set(p + "a", "1")
            store.set(p + "a", "2")
            store.add(p + "b", 1)
            self.assertEqual(store.num_keys(), before + 2)

    def test_those_that_come_are_counted(self):
        for use_libuv in (True, False):
            self.client(use_libuv, world_size=7, wait=True)  # a client counts itself and goes on
        self.assertEqual(self.client(True).num_keys(), 1)

    def test_many_at_once(self):
        for store, p in self.each_client():
            store.multi_set([p + "a", p + "b"], ["1", "2"])
            self.assertEqual(store.multi_get([p + "b", p + "a"]), [b"2", b"1"])

    def test_queues(self):
        store = self.client(True)  # the other client has none
        store.queue_push("q", "one")
        store.queue_push("q", "two")
        self.assertEqual(store.queue_len("q"), 2)
        self.assertEqual(store.queue_pop("q"), b"one")
        self.assertEqual(store.queue_pop("q"), b"two")
        with self.assertRaises(dist.QueueEmptyError):
            store.queue_pop("q", block=False)
        other = self.client(True)
        pusher = threading.Timer(0.05, lambda: other.queue_push("q", "late"))
        pusher.start()
        self.assertEqual(store.queue_pop("q"), b"late")
        pusher.join()

    def test_waits(self):
        for store, p in self.each_client():
            with self.assertRaises(dist.DistStoreError):
                store.wait([p + "never"], datetime.timedelta(milliseconds=50))
            other = self.client(True)
            later = threading.Timer(0.05, lambda: other.set(p + "late", "here"))
            later.start()
            self.assertEqual(store.get(p + "late"), b"here")
            later.join()

    def test_large_value(self):
        store = self.client(True)
        value = bytes(range(256)) * 4096 * 4
        store.set("big", value)
        self.assertEqual(store.get("big"), value)

    def test_workers_join_and_a_gloo_group_forms(self):
        script = (
            "import sys, torch, torch.distributed as d\n"
            "rank, port = int(sys.argv[1]), int(sys.argv[2])\n"
            "s = d.TCPStore('127.0.0.1', port, 2, False)\n"
            "d.init_process_group('gloo', store=s, rank=rank, world_size=2)\n"
            "t = torch.tensor([float(rank + 1)])\n"
            "d.all_reduce(t)\n"
            "assert t.item() == 3.0\n"
            "d.destroy_process_group()\n")
        ranks = [subprocess.Popen([sys.executable, "-c", script, str(r), str(self.port)]) for r in (0, 1)]
        self.assertEqual([rank.wait(timeout=120) for rank in ranks], [0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
