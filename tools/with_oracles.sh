#!/bin/sh
# Runs a Python script with the oracle environment's interpreter, one thread a process.
exec env OMP_NUM_THREADS=1 "${LOCKSTEP_DEPS:-${HOME}/.cache/lockstep}/oracle-venv/bin/python" "$@"
