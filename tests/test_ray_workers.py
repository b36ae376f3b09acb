"""Workers on Ray clusters: those that are there, those that fall apart, and none at all (bad inputs 82-85).

What all workers have in common is in test_workers.py.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest
from ray_network import require_ray
from test_workers import (
    PATH,
    Told,
    children,
    digests,
    dispatching,
    expected,
    hosted,
    is_alive,
    new_works,
    wait_for,
    walk,
)

from asap.base.errors import UserError
from asap.workers import ray_cluster
from asap.workers.ray_cluster import RayWorkers

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False, "node_ip_address": "127.0.0.1"}


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"--workers: ray needs 'pip install asap-rl\[ray\]'"):
        RayWorkers(hosted(walk()), 2)


@pytest.fixture(scope="module")
def ray():
    return require_ray()


@pytest.fixture
def cluster(ray):
    """Two nodes, one CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
    try:
        cluster.lost = cluster.add_node(num_cpus=1, **SMALL)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def descendants(pid: int) -> list[int]:
    return [pid, *(other for child in children(pid) for other in descendants(child))]


def kill_node(node) -> list[int]:
    """Ray's processes of the node; those of our workers must follow by themselves, and are returned."""
    raylet = node.all_processes["raylet"][0].process.pid
    pids = descendants(raylet)
    ours = [pid for pid in pids if "asap.workers.supervisor" in command(pid)]
    for pid in pids:
        if pid not in ours:
            os.kill(pid, signal.SIGKILL)
    return ours


def command(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
        return file.read()
    return ""


def test_a_lost_node_changes_nothing_and_a_new_one_is_used(ray, cluster, capfd):
    told, works, ours = Told(), new_works(16), []
    workers = RayWorkers(hosted(walk(pause=0.01)), 2, cluster.address)
    with dispatching(workers, told, step_timeout=5.0) as dispatcher:
        dispatcher.play(works[:2])
        assert wait_for(lambda: dispatcher.play(works[:2]) and all(map(workers.progress, range(2))))
        killer = threading.Timer(0.3, lambda: ours.extend(kill_node(cluster.lost)))
        killer.start()
        assert digests(dispatcher.play(works)) == expected(16)
        assert (
            len(told) == 1 and "; restarted, episode re-run" in told[0] and "died (lost by Ray) in episode" in told[0]
        )
        assert ours and not any(map(is_alive, ours))
        assert sum(workers.progress(worker) is None for worker in range(2)) == 1
        cluster.add_node(num_cpus=1, **SMALL)
        assert wait_for(lambda: dispatcher.play(works[:2]) and all(map(workers.progress, range(2))), 30)
    assert capfd.readouterr().out == ""


def test_other_versions_are_refused_in_one_line(ray, cluster, monkeypatch):
    here = {**ray_cluster.versions(), "numpy": "1.0"}
    monkeypatch.setattr(ray_cluster, "versions", lambda: here)
    with dispatching(RayWorkers(hosted(walk()), 1, cluster.address)) as dispatcher:
        with pytest.raises(
            UserError, match="--workers: worker 0 has numpy .*, and this process numpy 1.0; install the same"
        ):
            dispatcher.play(new_works(1))


def test_an_address_where_nobody_is(ray):
    with pytest.raises(UserError, match="--workers: cannot connect to Ray at 127.0.0.1:1: "):
        RayWorkers(hosted(walk()), 1, "127.0.0.1:1")


DRIVER = """
import signal
import sys
from asap.workers.dispatch import Dispatcher
from asap.workers.ray_cluster import RayWorkers
from test_workers import hosted, new_works, walk
workers = RayWorkers(hosted(walk("tells_pids", folder=sys.argv[1])), 2, *sys.argv[3:])
dispatcher = Dispatcher(workers, None, print)
# A background job of a shell, `make test-ray &`, inherits a SIGINT that is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
dispatcher.play(new_works(int(sys.argv[2])))
dispatcher.close()
print("played")
"""


def driver(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        text=True,
        process_group=0,
    )


def said(process: subprocess.Popen) -> tuple[str, str]:
    """Its output and errors, but for Ray's remark that there is no internet."""
    output, errors = process.communicate(timeout=60)
    return output, "".join(line for line in errors.splitlines(True) if "network_util" not in line)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nobody_outlives_the_driver(ray, how, tmp_path):
    with driver(str(tmp_path), "1000") as process:
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 6, 30)
        # Ray's agents stay for a minute, in the hope of telling somebody that the driver has died.
        pids = [pid for pid in descendants(process.pid)[1:] if "Agent" not in command(pid)]
        pids += [int(path.name) for path in tmp_path.iterdir()]
        os.killpg(process.pid, how)
        process.communicate(timeout=30)
        assert len(pids) > 8 and wait_for(lambda: not any(map(is_alive, pids)))


def test_a_local_cluster_is_silent_and_ends_with_its_workers(ray, tmp_path):
    with driver(str(tmp_path), "4") as process:
        assert wait_for(lambda: len(list(tmp_path.iterdir())) == 6, 30)
        pids = descendants(process.pid)[1:]
        assert said(process) == ("played\n", "")
    assert wait_for(lambda: not any(map(is_alive, pids)))


def test_a_cluster_that_asks_for_a_token(ray, tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 2}
    environment = {**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0"}
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=6399", "--num-cpus=2"]
    start += ["--node-ip-address=127.0.0.1", "--include-dashboard=false", f"--object-store-memory={80 << 20}"]
    with subprocess.Popen(start, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        pids = []
        try:
            assert wait_for(lambda: "ray::RuntimeEnvAgent" in "".join(map(command, descendants(head.pid))), 30)
            pids = descendants(head.pid)
            with driver(str(tmp_path), "4", "127.0.0.1:6399", **token) as process:
                assert said(process) == ("played\n", "")
            with driver(str(tmp_path), "4", "127.0.0.1:6399", **{**token, "RAY_AUTH_TOKEN": "f" * 32}) as process:
                assert "UserError: --workers: cannot connect to Ray at 127.0.0.1:6399: " in said(process)[1]
        finally:
            head.terminate()
            wait_for(lambda: not any(map(is_alive, pids[1:])))
