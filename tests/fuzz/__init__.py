"""Fuzzers: random but repeatable tries of the command line and the estimators, and what must hold in every one.

Three of them, each a module with `run(case, folder)`, which raises where something is wrong and otherwise says in a few
words what came of the case ("fitted", "refused: RecipeError, ..."):

settings   kernels, words of the recipe, weights and types over made and real data: a fit succeeds or is refused by a
           DKernelError; scores are finite; numpy, pandas, Dask, single rows, files and a loaded model agree
types      Arrow types as feature, label, weight and kept column through train, score and evaluate
paths      inputs, models and outputs that are each other, links, globs, folders, odd names: nothing that exists is
           replaced unless the command names it as an output and it is none of the inputs

A case is drawn from the name of the fuzzer, a seed and a number, and from nothing else, so one command repeats it:

    python -m tests.fuzz settings --seed 7 --case 123
    python -m tests.fuzz settings --seed 7 --cases 2000

The second is a long session and ends with a table: what came of the cases, by kind, and every failure with the command
that repeats it, also after Ctrl-C. `--limit 300` ends a case after so many seconds, to find what hangs; `--keep DIR`
keeps the files.

The default tests try a few cases of fixed seeds; those marked `slow` (scripts/test.sh --all) try each fuzzer for some
minutes. Cases on real data need the folder of data sets beside the checkout: they are passed over where there is no
such folder, and fail where it lacks their set.
"""
