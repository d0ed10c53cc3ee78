"""docker/run.sh: where a command runs, what the engine is told, and what is said when it cannot.

The engines are stand-ins that note their arguments: no machine has both a GPU without its toolkit
and one with a driver too old. `check_images.py` runs the same script with a real engine.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RUN = ROOT / "docker" / "run.sh"

ANSWERS = "exit 0"
NOT_RUNNING = (
    "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1"
)
NOT_ALLOWED = (
    "echo 'permission denied while trying to connect to the Docker daemon socket' >&2; exit 1"
)


class Machine:
    """A PATH with stand-ins for the engines, and what they noted."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.notes = folder / "notes"
        self.environment = {
            "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "NSYS": "/nonexistent",
        }
        self.engine("docker", info=NOT_RUNNING)
        self.engine("podman", info="exit 1")
        self.script("nsyslab", f'printf "%s\\n" "host nsyslab $*" >>{self.notes}')
        self.environment["NSYSLAB"] = str(self.bin / "nsyslab")

    def script(self, name: str, body: str) -> Path:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def engine(
        self, name: str, *, info: str = ANSWERS, run: str = ":", image: str = "exit 0"
    ) -> None:
        self.script(
            name,
            f'''case "$1" in
                --version) echo "{name} version 28.0.0" ;;
                info) {info} ;;
                image) {image} ;;
                *) printf "%s\\n" "{name} $*" >>{self.notes}; {run} ;;
            esac''',
        )

    def nsys(self) -> None:
        self.environment["NSYS"] = str(self.script("nsys", "echo 2025.6.1"))

    def run(
        self, *command: str, setup: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run docker/run.sh; `setup` are shell commands in a mount namespace of their own."""
        line: list[str] = [str(RUN), *command]
        if setup:
            wrapped = ["sh", "-euc", f'{setup}\nexec "$@"', "sh", *line]
            line = ["unshare", "--map-root-user", "--mount", *wrapped]
        return subprocess.run(
            line,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


RECORD = ("nsyslab", "profile", "d2h_async", "--steps", "3")


@pytest.mark.parametrize(
    ("docker", "podman", "nsys", "runner", "ran"),
    [
        (True, True, True, "", "docker run"),
        (False, True, True, "", "podman run"),
        (False, False, True, "", "host nsyslab profile d2h_async --steps 3"),
        (True, True, True, "host", "host nsyslab profile d2h_async --steps 3"),
        (False, True, True, "container", "podman run"),
    ],
)
def test_where_a_recording_runs(
    machine: Machine, docker: bool, podman: bool, nsys: bool, runner: str, ran: str
) -> None:
    if docker:
        machine.engine("docker")
    if podman:
        machine.engine("podman")
    if nsys:
        machine.nsys()
    result = machine.run(*RECORD, RUNNER=runner)
    assert result.returncode == 0, result.stderr
    [line] = machine.noted
    assert line.startswith(ran)


def test_what_records_nothing_needs_no_nsys(machine: Machine) -> None:
    result = machine.run("nsyslab", "run", "d2h_async")
    assert result.returncode == 0, result.stderr
    assert machine.noted == ["host nsyslab run d2h_async"]


def test_engine_chosen_by_name(machine: Machine) -> None:
    machine.engine("docker")
    machine.engine("podman")
    assert machine.run(*RECORD, ENGINE="podman").returncode == 0
    assert machine.noted[0].startswith("podman run")


@pytest.mark.parametrize(
    ("environment", "error", "hint"),
    [
        (
            {},
            "nowhere to record: docker does not answer (Cannot connect to the Docker daemon at "
            "unix:///var/run/docker.sock.); podman does not answer (it said nothing); "
            "and no nsys on this machine",
            "sudo systemctl start podman, or: sudo docker/install-nsys.sh",
        ),
        ({"RUNNER": "container", "ENGINE": "docker"}, "docker does not answer", "start docker"),
        ({"RUNNER": "container", "ENGINE": "lxc"}, "lxc is not installed", "install Docker"),
        ({"RUNNER": "host"}, "no nsys is on this machine", "install-nsys.sh"),
        ({"RUNNER": "moon"}, "RUNNER is moon", "RUNNER=container or RUNNER=host"),
    ],
)
def test_what_is_missing_is_named(
    machine: Machine, environment: dict[str, str], error: str, hint: str
) -> None:
    result = machine.run(*RECORD, **environment)
    assert result.returncode == 2
    first, second = result.stderr.splitlines()
    assert first.startswith("run: error: ")
    assert error in first
    assert second.startswith("run:   next: ")
    assert hint in second
    assert machine.noted == []


def test_a_user_outside_the_docker_group(machine: Machine) -> None:
    machine.engine("docker", info=NOT_ALLOWED)
    result = machine.run(*RECORD, RUNNER="container", ENGINE="docker")
    assert result.returncode == 2
    assert "permission denied" in result.stderr
    assert "usermod -aG docker" in result.stderr


def options(noted: str) -> str:
    """The engine's own options in a noted command line."""
    return noted.partition(" localhost/nsys-lab/")[0]


def test_settings_are_those_of_compose(machine: Machine) -> None:
    machine.engine("docker")
    assert machine.run(*RECORD).returncode == 0
    told = options(machine.noted[0])
    lab = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["lab"]
    shm = lab["shm_size"].removeprefix("${LAB_SHM_SIZE:-").removesuffix("}")
    assert f"--shm-size {shm}" in told
    assert f"--ulimit memlock={lab['ulimits']['memlock']}" in told
    assert lab["cap_drop"] == ["ALL"]
    assert "--cap-drop ALL" in told
    assert lab["security_opt"] == ["no-new-privileges:true"]
    assert "--security-opt no-new-privileges" in told
    assert lab["init"] is True
    assert "--init" in told
    for volume in lab["volumes"]:
        assert f"--volume {ROOT}{volume.removeprefix('.')}" in told
    assert "cap-add" not in told
    assert f"--user {os.getuid()}:{os.getgid()}" in told
    assert machine.noted[0].endswith(" localhost/nsys-lab/lab nsyslab profile d2h_async --steps 3")


def test_shared_memory_and_engine_options_of_the_callers(machine: Machine) -> None:
    machine.engine("docker")
    machine.run(*RECORD, LAB_SHM_SIZE="40g", ENGINE_ARGS="--volume /data:/data --env A=*")
    told = options(machine.noted[0])
    assert "--shm-size 40g" in told
    assert told.endswith("--volume /data:/data --env A=*")


def test_root_inside_is_the_caller_of_a_rootless_docker(machine: Machine) -> None:
    machine.engine("docker", info="echo '[name=seccomp,profile=builtin name=rootless]'")
    machine.run(*RECORD)
    assert "--user 0:0" in options(machine.noted[0])


def test_a_missing_image_is_built_first(machine: Machine) -> None:
    machine.engine("docker", image="exit 1")
    result = machine.run(*RECORD, EXTRA_BUILD_ARGS="--build-arg NSYS_VERSION=2025.5.1")
    assert result.returncode == 0, result.stderr
    build, run = machine.noted
    assert re.fullmatch(
        "docker build --file docker/Dockerfile --target lab --tag localhost/nsys-lab/lab "
        "--label org.nsys-lab.sources=[0-9a-f]{64} --build-arg NSYS_VERSION=2025.5.1 .",
        build,
    )
    assert run.startswith("docker run")


def test_an_image_of_other_sources_is_used_and_said_so(machine: Machine) -> None:
    machine.engine("docker", image="echo 0123")
    result = machine.run(*RECORD)
    assert result.returncode == 0
    assert "built from other sources than this checkout's; make image" in result.stderr


@pytest.mark.parametrize("code", [1, 2, 3, 4, 130])
def test_the_commands_own_exit_code_and_words_come_through(machine: Machine, code: int) -> None:
    machine.engine("docker", run=f"echo result; echo 'its own words' >&2; exit {code}")
    result = machine.run(*RECORD)
    assert result.returncode == code
    assert result.stdout == "result\n"
    assert result.stderr.endswith("its own words\n")


@pytest.mark.parametrize(
    ("engine", "said", "error", "hint"),
    [
        (
            "docker",
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]].",
            "the NVIDIA container toolkit is missing",
            "nvidia-ctk runtime configure --runtime=docker",
        ),
        (
            "docker",
            "docker: Error response from daemon: failed to discover GPU vendor from CDI: no known "
            "GPU vendor found",
            "the NVIDIA container toolkit is missing",
            "nvidia-ctk cdi generate",
        ),
        (
            "podman",
            "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
            "the NVIDIA container toolkit is missing",
            "nvidia-ctk cdi generate",
        ),
        (
            "docker",
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.0, please "
            "update your driver to a newer version, or use an earlier cuda container: unknown.",
            "too old for the CUDA of the image",
            "update the driver",
        ),
        (
            "docker",
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
            "the GPU driver does not answer",
            "nvidia-smi must work first",
        ),
        ("docker", "write /var/lib/docker/tmp: no space left on device", "disk is full", "prune"),
    ],
)
def test_what_an_engine_cannot_do_is_explained(
    machine: Machine, engine: str, said: str, error: str, hint: str
) -> None:
    machine.engine(engine, run=f"echo '{said}' >&2; exit 125")
    result = machine.run(*RECORD)
    assert result.returncode == 4
    *_, first, second = result.stderr.splitlines()
    assert said in result.stderr
    assert error in first
    assert hint in second


def test_an_engines_failure_nobody_knows_stays_as_it_is(machine: Machine) -> None:
    machine.engine("docker", run="echo 'something new' >&2; exit 125")
    result = machine.run(*RECORD)
    assert result.returncode == 125
    assert result.stderr.endswith("something new\n")


# A /dev with the device file that the NVIDIA driver makes.
WITH_GPU = """
new=$(mktemp -d); mkdir "$new/dev"; mount -t tmpfs tmpfs "$new/dev"
for name in null zero urandom tty; do
    : >"$new/dev/$name"; mount --bind "/dev/$name" "$new/dev/$name"
done
ln -s /proc/self/fd "$new/dev/fd"; : >"$new/dev/nvidiactl"
mount --rbind "$new/dev" /dev
"""


@pytest.mark.parametrize(
    ("engine", "flag"), [("docker", "--gpus all"), ("podman", "--device nvidia.com/gpu=all")]
)
def test_a_gpu_is_given_to_the_container(machine: Machine, engine: str, flag: str) -> None:
    machine.engine(engine)
    result = machine.run(*RECORD, setup=WITH_GPU, CUDA_VISIBLE_DEVICES="1")
    assert result.returncode == 0, result.stderr
    assert flag in options(machine.noted[0])
    assert "--env CUDA_VISIBLE_DEVICES" in options(machine.noted[0])


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="about machines without a GPU")
def test_without_a_gpu_none_is_asked_for(machine: Machine) -> None:
    machine.engine("docker")
    result = machine.run(*RECORD)
    assert "--gpus" not in machine.noted[0]
    assert "no NVIDIA GPU on this machine" in result.stderr


def paranoid(level: int) -> str:
    setting = "/proc/sys/kernel/perf_event_paranoid"
    return f"file=$(mktemp); echo {level} >$file; mount --bind $file {setting}"


def test_sampling_adds_one_capability(machine: Machine) -> None:
    machine.engine("docker")
    result = machine.run(*RECORD, "--sample", setup=paranoid(2))
    assert result.returncode == 0, result.stderr
    assert "--cap-add PERFMON" in options(machine.noted[0])


@pytest.mark.parametrize("level", [3, 4])
def test_sampling_on_a_closed_machine(machine: Machine, level: int) -> None:
    machine.engine("docker")
    result = machine.run(*RECORD, "--sample", setup=paranoid(level))
    assert result.returncode == 2
    assert f"kernel.perf_event_paranoid is {level}" in result.stderr
    assert "sudo sysctl kernel.perf_event_paranoid=2" in result.stderr
    assert machine.noted == []


def test_recording_on_a_host_whose_tmp_is_noexec(machine: Machine, tmp_path: Path) -> None:
    machine.nsys()
    closed = tmp_path / "tmp"
    closed.mkdir()
    mount = f"mount -t tmpfs -o noexec tmpfs {closed}"
    result = machine.run(*RECORD, setup=mount, TMPDIR=str(closed))
    assert result.returncode == 2
    assert f"{closed} is mounted noexec" in result.stderr
    assert machine.noted == []


def test_the_notebook_is_open_to_this_machine_alone(machine: Machine) -> None:
    machine.engine("docker")
    result = machine.run("--image", "notebook", "jupyter", "lab", JUPYTER_TOKEN="secret")
    assert result.returncode == 0, result.stderr
    told = options(machine.noted[0])
    assert "--publish 127.0.0.1:8888:8888" in told
    machine.run("--image", "notebook", NOTEBOOK_PORT="9999")
    assert "--publish 127.0.0.1:9999:8888" in options(machine.noted[1])
    assert "--env JUPYTER_TOKEN" in told
    assert "secret" not in machine.noted[0]
    assert "--gpus" not in told


def test_other_images_do_not_run_on_the_host(machine: Machine) -> None:
    machine.nsys()
    result = machine.run("--image", "analysis", "nsyslab", "analyze", "reports")
    assert result.returncode == 2
    assert "no container engine" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((), "no command given"), (("--image", "moon", "ls"), "no image moon")],
)
def test_usage(machine: Machine, arguments: tuple[str, ...], error: str) -> None:
    result = machine.run(*arguments)
    assert result.returncode == 2
    assert error in result.stderr
