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
        self,
        name: str,
        *,
        info: str = ANSWERS,
        run: str = ":",
        image: str = "exit 0",
        buildx: str = "exit 0",
    ) -> None:
        self.script(
            name,
            f'''case "$1" in
                --version) echo "{name} version 28.0.0" ;;
                info) {info} ;;
                image) {image} ;;
                buildx) {buildx} ;;
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


def test_make_hands_on_what_the_caller_sets(machine: Machine) -> None:
    machine.nsys()
    made = subprocess.run(
        ["make", "profile", "WORKLOAD=d2h_async", "ARGS=--steps 3", "RUNNER=host"],
        cwd=ROOT,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert machine.noted == ["host nsyslab profile d2h_async --steps 3"]


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
            "sudo systemctl start docker, or: sudo docker/install-nsys.sh",
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


def test_a_podman_that_fails_is_asked_why(machine: Machine) -> None:
    result = machine.run(*RECORD, RUNNER="container", ENGINE="podman")
    assert result.returncode == 2
    assert "podman does not answer (it said nothing)" in result.stderr
    assert "next: podman info tells why, or RUNNER=host" in result.stderr


@pytest.mark.parametrize("engines", ["docker", ""])
def test_a_user_outside_the_docker_group(machine: Machine, engines: str) -> None:
    machine.engine("docker", info=NOT_ALLOWED)
    result = machine.run(*RECORD, RUNNER="container", ENGINE=engines)
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


@pytest.mark.parametrize("name", ["analysis", "notebook"])
def test_settings_of_the_other_images_are_those_of_compose(machine: Machine, name: str) -> None:
    machine.engine("docker")
    assert machine.run("--image", name, "ls").returncode == 0
    told = options(machine.noted[0])
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"][name]
    volumes = re.findall(r"--volume (.+?)(?= --|$)", told)
    assert volumes == [f"{ROOT}{volume.removeprefix('.')}" for volume in service["volumes"]]
    assert ("--network none" in told) == (service.get("network_mode") == "none")
    ports = [port.replace("${NOTEBOOK_PORT:-8888}", "8888") for port in service.get("ports", [])]
    assert re.findall(r"--publish (\S+)", told) == ports
    assert "--cap-drop ALL --security-opt no-new-privileges" in told


def test_shared_memory_and_engine_options_of_the_callers(machine: Machine) -> None:
    machine.engine("docker")
    machine.run(*RECORD, LAB_SHM_SIZE="40g", ENGINE_ARGS="--volume /data:/data --env A=*")
    told = options(machine.noted[0])
    assert "--shm-size 40g" in told
    assert told.endswith("--volume /data:/data --env A=*")


ROOTLESS = "echo '[name=seccomp,profile=builtin name=rootless]'"


def test_root_inside_is_the_caller_of_a_rootless_docker(machine: Machine) -> None:
    machine.engine("docker", info=ROOTLESS)
    machine.run(*RECORD)
    assert "--user 0:0" in options(machine.noted[0])


@pytest.mark.parametrize(
    ("engine", "info"), [("docker", ROOTLESS), ("podman", ANSWERS), ("docker", ANSWERS)]
)
def test_an_engine_of_the_callers_is_bound_by_the_callers_limits(
    machine: Machine, engine: str, info: str
) -> None:
    machine.engine(engine, info=info)
    result = machine.run(*RECORD, setup="ulimit -l 64", ENGINE=engine)
    assert result.returncode == 0, result.stderr
    given = "--ulimit memlock=-1:-1" in options(machine.noted[0])
    # Docker with a daemon of root's is not.
    assert given == (engine == "docker" and info == ANSWERS)


def test_the_base_is_for_one_architecture(machine: Machine) -> None:
    machine.engine("docker", image="exit 1")
    machine.script("uname", "echo aarch64")
    result = machine.run(*RECORD)
    assert result.returncode == 2
    assert "for x86_64, and this machine is aarch64" in result.stderr
    assert "RUNNER=host" in result.stderr
    assert machine.noted == []
    own = machine.run(*RECORD, EXTRA_BUILD_ARGS="--build-arg BASE_IMAGE=nvcr.io/nvidia/pytorch")
    assert own.returncode == 0, own.stderr
    assert machine.run("--image", "analysis", "nsyslab", "analyze", "reports").returncode == 0


def test_a_docker_without_buildx_cannot_build(machine: Machine) -> None:
    """As Debian's and Ubuntu's docker.io comes."""
    machine.engine("docker", image="exit 1", buildx="exit 1")
    result = machine.run(*RECORD)
    assert result.returncode == 2
    assert "docker has no buildx to build with" in result.stderr
    assert "docker-buildx-plugin" in result.stderr
    assert machine.noted == []


def test_a_missing_image_is_built_first(machine: Machine) -> None:
    machine.engine("docker", image="exit 1")
    result = machine.run(*RECORD, EXTRA_BUILD_ARGS="--build-arg NSYS_VERSION=2025.5.1")
    assert result.returncode == 0, result.stderr
    build, run = machine.noted
    assert re.fullmatch(
        "docker build --file docker/Dockerfile --target lab --tag localhost/nsys-lab/lab "
        "--label org.nsys-lab.sources=[0-9a-f]{64} --load --build-arg NSYS_VERSION=2025.5.1 .",
        build,
    )
    assert run.startswith("docker run")


def test_an_image_of_other_sources_is_used_and_said_so(machine: Machine) -> None:
    machine.engine("docker", image="echo 0123")
    result = machine.run(*RECORD)
    assert result.returncode == 0
    assert "built from other sources than this checkout's; make image" in result.stderr


@pytest.mark.parametrize("label", ["", "<no value>"])
def test_an_image_that_compose_built_is_not_called_old(machine: Machine, label: str) -> None:
    machine.engine("docker", image=f"echo '{label}'")
    assert "other sources" not in machine.run(*RECORD).stderr


@pytest.mark.parametrize("code", [1, 2, 3, 4, 130])
def test_the_commands_own_exit_code_and_words_come_through(machine: Machine, code: int) -> None:
    machine.engine("docker", run=f"echo result; echo 'its own words' >&2; exit {code}")
    result = machine.run(*RECORD)
    assert result.returncode == code
    assert result.stdout == "result\n"
    assert result.stderr.endswith("its own words\n")


TOOLKIT = "the NVIDIA container toolkit is missing or not set up"
GENERATE = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
STALE = "description of the GPU is not of the driver that runs now"
DRIVER = "the GPU driver does not answer"


@pytest.mark.parametrize(
    ("engine", "said", "error", "hint"),
    [
        (
            "docker",
            'Error response from daemon: could not select device driver "" with capabilities: '
            "[[gpu]].",
            TOOLKIT,
            "nvidia-ctk runtime configure --runtime=docker",
        ),
        # Docker 29 and newer.
        (
            "docker",
            "Error response from daemon: failed to discover GPU vendor from CDI: no known GPU "
            "vendor found",
            TOOLKIT,
            f"{GENERATE} && sudo systemctl restart docker",
        ),
        ("docker", "Error response from daemon: AMD CDI spec not found", TOOLKIT, GENERATE),
        (
            "podman",
            "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
            TOOLKIT,
            GENERATE,
        ),
        (
            "docker",
            "fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown",
            TOOLKIT,
            "nvidia-ctk runtime configure",
        ),
        # Podman 3.4 of Ubuntu 22.04.
        (
            "podman",
            "Error: stat nvidia.com/gpu=all: no such file or directory",
            "podman version 28.0.0 cannot give a container the GPU",
            "Podman 4.1 or newer",
        ),
        (
            "podman",
            "Error: crun: cannot stat `/usr/lib/libnvidia-egl-wayland.so.1.1.13`: No such file or "
            "directory: OCI runtime attempted to invoke a command that was not found",
            STALE,
            GENERATE,
        ),
        (
            "podman",
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
            'device "/dev/dri/renderD129": no such file or directory',
            STALE,
            GENERATE,
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
            "nvidia-container-cli: mount error: failed to add device rules: unable to find any "
            "existing device filters attached to the cgroup: bpf_prog_query(BPF_CGROUP_DEVICE) "
            "failed: operation not permitted: unknown.",
            "not set up for an engine without root",
            "nvidia-ctk config --set nvidia-container-cli.no-cgroups",
        ),
        (
            "docker",
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
            DRIVER,
            "nvidia-smi must work first",
        ),
        (
            "docker",
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: "
            "cannot open shared object file: no such file or directory: unknown.",
            DRIVER,
            "nvidia-smi must work first",
        ),
        ("docker", "write /var/lib/docker/tmp: no space left on device", "disk is full", "prune"),
    ],
)
def test_what_an_engine_cannot_do_is_explained(
    machine: Machine, engine: str, said: str, error: str, hint: str
) -> None:
    machine.engine(engine, run=f"cat <<'EOF' >&2\n{said}\nEOF\nexit 125")
    result = machine.run(*RECORD)
    assert result.returncode == 4
    *_, first, second = result.stderr.splitlines()
    assert said in result.stderr
    assert error in first
    assert hint in second


def test_a_description_of_the_gpu_that_podman_does_not_understand(machine: Machine) -> None:
    """Toolkit 1.19.1 and newer with the Podman of Ubuntu 24.04."""
    said = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all"
    machine.engine("podman", run=f"echo '{said}' >&2; exit 126")
    written = (
        "mount -t tmpfs tmpfs /etc; mkdir /etc/cdi; echo additionalGids: >/etc/cdi/nvidia.yaml"
    )
    result = machine.run(*RECORD, setup=written)
    assert result.returncode == 4
    *_, first, second = result.stderr.splitlines()
    assert "podman version 28.0.0 does not understand /etc/cdi/nvidia.yaml" in first
    assert second.endswith(
        "nvidia-ctk cdi generate --feature-flag no-additional-gids-for-device-nodes "
        "--output=/etc/cdi/nvidia.yaml"
    )


@pytest.mark.parametrize(
    "said",
    [
        "Error: cannot listen on the TCP port: listen tcp4 127.0.0.1:8888: bind: address already "
        "in use",
        "Bind for 127.0.0.1:8888 failed: port is already allocated",
    ],
)
def test_the_port_of_the_notebook_is_taken(machine: Machine, said: str) -> None:
    machine.engine("docker", run=f"echo '{said}' >&2; exit 126")
    result = machine.run("--image", "notebook")
    assert result.returncode == 2
    assert "error: port 8888 of this machine is taken" in result.stderr
    assert "NOTEBOOK_PORT=9999 make notebook" in result.stderr


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


@pytest.mark.parametrize(
    ("cuda", "enough"),
    [("CUDA Version: 11.8", False), ("CUDA Version: 12.4", True), ("CUDA UMD Version: 13.2", True)],
)
def test_a_driver_too_old_is_found_where_the_toolkit_does_not_look(
    machine: Machine, cuda: str, enough: bool
) -> None:
    machine.engine("podman", image="echo PATH=/bin; echo 'NVIDIA_REQUIRE_CUDA=cuda>=12.0'")
    machine.script(
        "nvidia-smi",
        f"""case "$*" in
            *query*) echo 520.61.05 ;;
            *) echo "| NVIDIA-SMI 520.61.05    Driver Version: 520.61.05    {cuda}     |" ;;
        esac""",
    )
    result = machine.run(*RECORD, setup=WITH_GPU)
    assert result.returncode == (0 if enough else 4)
    assert ("the GPU driver 520.61.05 is too old" in result.stderr) != enough
    assert (machine.noted == []) != enough


# What of these files the machine of the tests has itself is covered up.
BARE = "mount -t tmpfs tmpfs /proc/driver; mount -t tmpfs tmpfs /sys/bus/pci/devices;"
CARD = "mkdir /sys/bus/pci/devices/c; echo 0x10de >/sys/bus/pci/devices/c/vendor;"
LOADED = "mkdir /proc/driver/nvidia; echo NVRM >/proc/driver/nvidia/version;"
NO_CARD = "this machine has no NVIDIA GPU"
NO_DRIVER = "this machine has an NVIDIA GPU and no driver for it"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="about machines without its driver")
@pytest.mark.parametrize(
    ("found", "arguments", "note", "given"),
    [
        (BARE, (), NO_CARD, False),
        (BARE, ("--device", "cpu"), "", False),
        (BARE + CARD, (), NO_DRIVER, False),
        # Before their first use after a start of the machine, a GPU has no device files.
        (BARE + CARD + LOADED, (), "", True),
        # Where the toolkit is missing, that would fail.
        (BARE + CARD + LOADED, ("--device", "cpu"), "", False),
    ],
)
def test_what_there_is_of_a_gpu(
    machine: Machine, found: str, arguments: tuple[str, ...], note: str, given: bool
) -> None:
    machine.engine("docker")
    result = machine.run(*RECORD, *arguments, setup=found)
    assert result.returncode == 0, result.stderr
    assert ("--gpus all" in options(machine.noted[0])) == given
    assert [text for text in (NO_CARD, NO_DRIVER) if text in result.stderr] == [note] * bool(note)


def paranoid(level: int) -> str:
    setting = "/proc/sys/kernel/perf_event_paranoid"
    return f"file=$(mktemp); echo {level} >$file; mount --bind $file {setting}"


def test_sampling_adds_one_capability(machine: Machine) -> None:
    machine.engine("docker")
    result = machine.run(*RECORD, "--sample", setup=paranoid(2))
    assert result.returncode == 0, result.stderr
    assert "--cap-add PERFMON" in options(machine.noted[0])


@pytest.mark.parametrize("capability", ["CAP_PERFMON", "CAP_SYS_ADMIN"])
def test_sampling_where_podman_keeps_it_closed(machine: Machine, capability: str) -> None:
    machine.engine("podman")
    rules = (
        "mount -t tmpfs tmpfs /etc; mount -t tmpfs tmpfs /usr/share; mkdir /usr/share/containers"
    )
    written = f"echo {capability} >/usr/share/containers/seccomp.json"
    setup = f"{paranoid(2)}; {rules}; {written}"
    result = machine.run(*RECORD, "--sample", setup=setup, ENGINE="podman")
    if capability == "CAP_PERFMON":
        assert result.returncode == 0, result.stderr
        assert "--cap-add PERFMON" in options(machine.noted[0])
        return
    assert result.returncode == 2
    assert "CPU sampling is closed in this Podman's containers" in result.stderr
    assert machine.noted == []
    args = {"ENGINE": "podman", "ENGINE_ARGS": "--security-opt seccomp=my.json"}
    assert machine.run(*RECORD, "--sample", setup=setup, **args).returncode == 0


@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize("runner", ["container", "host"])
def test_sampling_on_a_closed_machine(machine: Machine, runner: str, level: int) -> None:
    machine.engine("docker")
    machine.nsys()
    # Root of the machine may sample whatever the setting, anybody else may not.
    machine.script("id", "echo 1234")
    result = machine.run(*RECORD, "--sample", setup=paranoid(level), RUNNER=runner)
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
    # nsys itself works beside the recording, so it is tried.
    assert result.returncode == 0, result.stderr
    assert f"note: {closed} is mounted noexec" in result.stderr
    assert "TMPDIR=" in result.stderr
    assert "reports is mounted" not in result.stderr


def test_recording_into_a_folder_that_is_noexec(machine: Machine) -> None:
    machine.nsys()
    result = machine.run(*RECORD, setup=f"mount -t tmpfs -o noexec tmpfs '{ROOT}/reports'")
    assert result.returncode == 0, result.stderr
    assert "note: reports is mounted noexec" in result.stderr
    assert "-o FOLDER" in result.stderr


def test_the_notebook_is_open_to_this_machine_alone(machine: Machine) -> None:
    machine.engine("docker")
    result = machine.run("--image", "notebook", "jupyter", "lab", JUPYTER_TOKEN="secret")
    assert result.returncode == 0, result.stderr
    told = options(machine.noted[0])
    assert "--publish 127.0.0.1:8888:8888" in told
    other = machine.run("--image", "notebook", NOTEBOOK_PORT="9999")
    assert "on http://127.0.0.1:9999, " in other.stderr
    assert "--publish 127.0.0.1:9999:8888" in options(machine.noted[1])
    assert "on http://127.0.0.1:8888, " in result.stderr
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
