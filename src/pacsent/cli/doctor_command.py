"""Commands about this machine: doctor."""

import shutil

import click

from pacsent.cli.command_line import cli, json_option
from pacsent.cli.printing import echo_json


@cli.command()
@click.option("--quick", is_flag=True, help="Do not measure the speed of the English model.")
@json_option
def doctor(quick, as_json):
    """Report what this machine has and what is slow on it.

    Processor, vector width, threads, GPU, caches, versions, extras, and a small measurement.
    """
    from pacsent.paper.doctor import examine

    found = examine(measure=not quick)
    if as_json:
        echo_json(found)
        return
    cpu, threads, gpu, cache = (found[key] for key in ("processor", "threads", "gpu", "cache"))
    blas = ", ".join(f"{b['library']} on {b['threads']}" for b in threads["blas"]) or "none seen"
    shown = {
        "processor": f"{cpu['name']} ({cpu['code']}, {cpu['machine']})",
        "vectors": f"{cpu['vector_bits']} bits",
        "threads": f"{threads['used']} of {cpu['cores']} cores; BLAS: {blas}",
        "memory": "unknown" if found["memory_gb"] is None else f"{found['memory_gb']:g} GB",
        "GPU": ", ".join(gpu["names"]) if gpu["found"] else f"none: {gpu['why']}",
        "cache": f"{cache['kernels']} kernels, {cache['megabytes']:g} MB, {cache['folder']}",
        "versions": ", ".join(f"{name} {version}" for name, version in found["versions"].items()),
        "extras": ", ".join(name for name, there in found["extras"].items() if there) or "none",
    }
    if "measured" in found:
        speed = found["measured"]
        shown["measured"] = (
            f"first answer after {speed['first_answer_seconds']:g} s, then "
            f"{speed['texts_per_second']:,} short texts a second"
        )
    formatter = click.HelpFormatter(width=min(shutil.get_terminal_size()[0], 100))
    formatter.write_dl(list(shown.items()))
    with formatter.section("What is slow or missing here"):
        formatter.write_dl([("-", line) for line in found["advice"]] or [("-", "Nothing.")])
    click.echo(formatter.getvalue(), nl=False)
