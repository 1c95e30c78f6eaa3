"""Replacement for Nsight Compute: runs a program and writes a table row per kernel launch.

Environment variables:

- ASKED: file that logs each call of this program (words and locale);
- LAUNCHES: file to which the replacement for torch writes its launches;
- LISTING: text in place of the list of metrics;
- SAYS: error message in place of the table;
- NO_NVTX: the table has no ranges;
- OFF: JSON object, precision → factor that multiplies the counts of matrix products.
"""

import csv
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

words = sys.argv[1:]
with Path(os.environ["ASKED"]).open("a") as stream:
    stream.write(json.dumps([words, os.environ["LC_ALL"]]) + "\n")
if words == ["--query-metrics"]:
    instructions = [f"{kind}{op}" for kind in "dfh" for op in ("add", "mul", "fma")]
    names = [f"smsp__sass_thread_inst_executed_op_{name}_pred_on" for name in instructions]
    names += [f"sm__ops_path_tensor_src_{n}" for n in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32")]
    names += ["dram__bytes", "lts__t_bytes", "l1tex__t_bytes", "sm__cycles_active"]
    print(os.environ.get("LISTING", "\n".join(f"{name}   Counter  inst" for name in names)))
    sys.exit(0)
options = dict(pairwise(words))
log, metrics = Path(options["--log-file"]), options["--metrics"].split(",")
if message := os.environ.get("SAYS"):
    log.write_text(message)
    sys.exit(1)
launches = Path(os.environ["LAUNCHES"])
launches.write_text("")
print("==PROF== Connected to process 4242 (/somewhere/python)", flush=True)
code = subprocess.run(words[words.index(sys.executable) :], check=False).returncode
factors = json.loads(os.environ.get("OFF", "{}"))


def counts(name, work):
    """Return the value of each metric for a launch in the range ``name``.

    A range of a matrix product states precision and size, from which the operations follow; other
    kernels do 1,000 operations of each kind per unit of work.
    """
    if "product" not in name:
        count_by_word = {"op_f": 1000 * int(work), "bytes": 64}
        return [sum(n for word, n in count_by_word.items() if word in m) for m in metrics]
    _, _, precision, size = (word.rpartition("=")[2] for word in name.split())
    assert work == str(precision == "tf32")
    rows, columns, depth = map(int, size.split("x"))
    flops = round(2 * rows * columns * depth * factors.get(precision, 1))
    if precision == "fp32":  # a fused instruction is two operations
        return [flops // 2 if "op_ffma" in m else 0 for m in metrics]
    return [flops if f"src_{precision}" in m else 0 for m in metrics]


RANGE = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
with log.open("w") as stream:
    stream.write("==PROF== Profiling - 1: 0%....50%....100% - 9 passes\n")
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["ID", RANGE, "Kernel Name", "CC", *metrics])
    writer.writerow(["", "", "", "", *("byte" if "bytes" in m else "inst" for m in metrics)])
    for number, line in enumerate(launches.read_text().splitlines()):
        name, work = line.split("\t")
        nvtx_range = f'{number}  "<default domain>:{name}:none:none:none:none:none:none"'
        if os.environ.get("NO_NVTX"):
            nvtx_range = ""
        values = [f"{value:,}" for value in counts(name, work)]
        writer.writerow([number, nvtx_range, "void gemm<(int)128, float>(T1, T2)", "9.0", *values])
if code:
    print(f"==ERROR== The application returned an error code ({code}).")
sys.exit(code)
