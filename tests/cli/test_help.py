"""The help fits a screen, and what users of other tools type is answered with the word here."""

import click
import pytest
from click.testing import CliRunner

from dkernel.cli import main
from dkernel.cli.help import COMMAND_SYNONYMS, FEW_OPTIONS, OPTION_GROUPS, group_options
from dkernel.cli.options import Setting
from dkernel.model.parameters import PARAMETERS
from dkernel.numerics.validation import NAME_SYNONYMS as VALUES

# Of these tune and doctor are leaves.
COMMANDS = [name for name in main.list_commands(None) if name in ("train", "tune", "score", "evaluate", "doctor")]
SCREEN = 50


def call(*args):
    return CliRunner().invoke(main, [str(a) for a in args], terminal_width=80)


def command(name):
    return main.get_command(click.Context(main), name)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_one_screen_and_comes_in_groups(name):
    lines = call(name, "--help").stdout.splitlines()
    assert len(lines) <= SCREEN
    headings = [line.rstrip(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == [group for group in OPTION_GROUPS if group in headings]
    assert len(headings) >= 4
    assert "--help-all" in lines[-1]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_has_every_option(name):
    shown = call(name, "--help-all").stdout
    options = [option for option in command(name).params if isinstance(option, click.Option)]
    flags = [flag for option in options for flag in option.opts]
    assert all(option.help for option in options)
    assert [flag for flag in flags if f"{flag} " not in shown and f"{flag}," not in shown] == []


def test_every_option_has_a_group_of_its_own():
    assert {p.group for p in PARAMETERS.values()} <= set(OPTION_GROUPS)
    groups = {}
    for option in (o for each in COMMANDS for o in command(each).params if isinstance(o, Setting)):
        groups.setdefault(option.name, set()).add(option.group)
    assert {name: found for name, found in groups.items() if len(found) > 1 or not found <= set(OPTION_GROUPS)} == {}


def test_few_options_are_not_grouped():
    assert len(command("show").params) <= FEW_OPTIONS
    assert "Options:" in call("show", "--help").stdout
    assert "--help-all" not in call("show", "--help").stdout


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--target", "--label"),
        ("--C", "--alpha C=NUMBER"),
        ("--epochs", "--passes"),
        ("--n_components", "--n-components"),
        ("--random-state", "--seed"),
        ("--timeout", "--cluster-timeout"),
        ("--lable", "--label"),
    ],
)
def test_an_option_of_another_tool(typed, meant):
    result = call("train", "x.csv", typed, "3")
    assert result.exit_code == 2
    assert f"There is no option {typed}. Did you mean {meant}?" in result.stderr


def test_an_option_like_no_other():
    assert "kernel train --help-all lists them" in call("train", "--zzz").stderr


def test_synonyms_lead_to_options_that_exist():
    known = {flag for name in COMMANDS for option in command(name).params for flag in option.opts}
    assert {meant.split()[0] for meant in COMMAND_SYNONYMS.values()} <= known
    assert set(COMMAND_SYNONYMS) & known == set()


def test_values_of_other_tools_are_no_values_here():
    words = {word for p in PARAMETERS.values() for word in p.words}
    assert {meant for meant in VALUES.values() if meant not in words} <= {
        "gaussian",
        "laplacian",
        "linear",
        "sigma",
    }


def test_numbers_in_scientific_form_are_numbers():
    result = call("train", "--n-components", "1e3", "--print-config")
    assert "n_components = 1000\n" in result.stdout


def test_errors_speak_of_options():
    result = call("train", "x.csv", "--label", "y", "--out", "m", "--solver", "pcg", "--loss", "hinge")
    assert "Use --loss squared, or --solver psgd." in result.stderr


def test_a_short_option_for_each_of_the_usual_ones():
    found = group_options(command("train").params)["Output"]
    assert [option.opts for option in found[:1]] == [["-o", "--out"]]
    assert {"-q", "-v"} <= {flag for option in found for flag in option.opts}


def test_doctor_requires_nothing():
    assert "[required]" in call("train", "--help-all").stdout
    assert "[required]" not in call("doctor", "--help-all").stdout
