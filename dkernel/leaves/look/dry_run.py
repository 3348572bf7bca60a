"""`dkernel train --dry-run`: the look at the data, then the plan of the fit."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from dkernel.cli.options import count_bad_rows
from dkernel.cli.run_record import plain
from dkernel.cli.say import say
from dkernel.cli.train import open_for, open_rows, with_options
from dkernel.data.refused_columns import RefusedColumnsError
from dkernel.inference.baselines import baselines_cost
from dkernel.leaves.look.look import look_at
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.connect import connect
from dkernel.training.fit import plan
from dkernel.training.planning.memory_plan import format_plan


def print_look(values: Mapping[str, Any], recipe: Recipe, connection: Mapping[str, Any]) -> None:
    """Print the look at the data that the options name, and the plan of a fit; refuse at the end what a fit refuses."""
    with connect(**connection) as executor, count_bad_rows(partial(open_rows, executor=executor), values, recipe):
        refused = None
        try:
            source, recipe = open_for(values, recipe, executor)
        except RefusedColumnsError as error:
            refused, others = error, [name for name in error.columns if name not in (values["label"], values["weight"])]
            if values["json"] or len(others) < len(error.columns):
                raise
            source, recipe = open_for({**values, "exclude": [*(values["exclude"] or ()), *others]}, recipe, executor)
        seen = with_options(look_at(source, recipe, executor))
        if not values["json"]:
            say(str(seen))
        if refused is not None:
            raise refused
        work = plan(source, recipe, executor, [baselines_cost(source.n_rows, source.n_in, values["baselines"])])
    if values["json"]:
        say(json.dumps({**work, "look": asdict(seen)}, default=plain))
        return
    lines = format_plan(work)
    width = max(len(name) for name, _ in lines)
    say("\n".join(["Plan:", *(f"  {name:<{width}}  {text}" for name, text in lines)]))
