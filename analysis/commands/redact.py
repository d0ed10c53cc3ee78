"""``nsyslab redact``: an export to share, without the machine and its user in it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Where to.")
@click.option("--force", is_flag=True, help="Replace --output.")
def command(source: Path, output: Path, force: bool) -> None:
    """Copy an export without environments, names of host and user, paths, and program output.

    Every time and every id stays, and so do the names of kernels, calls and NVTX ranges, less the
    paths and addresses in them: read the range names before you share. A GPU's identifier becomes a
    pseudonym. Only exports can be redacted; a .nsys-rep report holds all of this and cannot.
    """
    from analysis.errors import InputError
    from analysis.nsys.redact import redact
    from analysis.nsys.suffixes import REPORT_SUFFIXES, STREAM_SUFFIX

    if source.suffix in (*REPORT_SUFFIXES, STREAM_SUFFIX):
        raise InputError(
            f"{source} is a report; only its export can be redacted",
            hint=f"nsyslab export {source}, then redact what that prints",
        )
    done = redact(source, output, force=force)
    click.echo(
        f"{output}\n"
        f"  left out: environments {done.environments} (variables {done.variables}), other "
        f"processes {done.processes}, settings of the machine and the recording {done.settings}, "
        f"pieces of program output {done.outputs}, other strings {done.strings}\n"
        f"  replaced: folders {done.folders}, names of hosts and users {done.identities}, "
        f"addresses {done.addresses}, GPU identifiers {done.devices}",
        err=True,
    )
    if done.columns:
        click.echo(f"  emptied: {', '.join(done.columns)}", err=True)
    if done.credentials:
        click.echo(
            f"nsyslab: {source} holds what look like credentials: {', '.join(done.credentials)}; "
            "if it has been shared, replace them",
            err=True,
        )
