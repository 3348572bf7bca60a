"""The text form of kernels: what is read, and that nothing else is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as gaussian_processes

from dkernel.errors import RecipeError
from dkernel.kernels import (
    Exp,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    PowerSeries,
    kernel_names,
    parse,
    register,
)
from dkernel.kernels.parse import _CLASSES
from tests.combinations import examples


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("gaussian", Gaussian()),
        ("rbf", Gaussian()),
        ("RBF", Gaussian()),
        (" Laplacian ", Laplacian()),
        ("LINEAR", Linear()),
        ("polynomial", Polynomial()),
        ("rbf(gamma=0.5)", Gaussian(gamma=0.5)),
        ("Gaussian(0.5)", Gaussian(gamma=0.5)),
        ("Gaussian(gamma='median')", Gaussian(gamma="median")),
        ('Gaussian(gamma="scale")', Gaussian(gamma="scale")),
        ("Gaussian(sigma=2)", Gaussian(gamma=0.125)),
        ("Polynomial(2, c=0)", Polynomial(degree=2, c=0)),
        ("2*linear", 2 * Linear()),
        ("linear*2", 2 * Linear()),
        ("+2 * linear", 2 * Linear()),
        ("2 * 3 * linear", 6 * Linear()),
        ("1e-3 * (rbf + linear) * laplacian(gamma=1)", (1e-3 * (Gaussian() + Linear())) * Laplacian(gamma=1)),
        ("linear +\n  rbf", Linear() + Gaussian()),
        ("poly", Polynomial(degree=3, c=1.0)),
        ("Poly(degree=2)", Polynomial(degree=2)),
    ],
)
def test_reads(text, kernel):
    assert parse(text) == kernel


def test_a_kernel_is_returned():
    k = Gaussian(gamma=2)
    assert parse(k) is k


def test_names():
    assert {"linear", "polynomial", "gaussian", "rbf", "laplacian", "matern"} <= set(kernel_names())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gausian", "Did you mean 'gaussian'"),
        ("Gausian(gamma=1)", "Did you mean 'gaussian'"),
        ("quux", "There are: 'ArcCosine'"),
        ("sigmoid", "not positive semi-definite; use Gaussian"),
        ("cosine", r"Use Normalized\(Linear\(\)\)"),
        ("precomputed", "takes rows, not their Gram matrix"),
        (gaussian_processes.RBF(1.0), r"Write 'Gaussian\(sigma=1.0\)'"),
        (gaussian_processes.WhiteKernel(), "is a kernel of scikit-learn"),
        ("Gaussian(length_scale=1)", r"has no parameter 'length_scale'. Did you mean 'sigma'\?"),
        ("Gaussian(gama=1)", "no parameter 'gama'. Did you mean 'gamma'"),
        ("Gaussian(gamma=-1)", "above 0"),
        ("Gaussian(gamma=1e999)", "finite"),
        ("Gaussian(1, gamma=1)", "cannot be made from"),
        ("Linear(3)", "square matrix"),
        ("Linear(1, 2)", "its parameters are: A"),
        ("-1 * rbf", "positive semi-definite"),
        ("-rbf", "positive semi-definite"),
        ("rbf - linear", "positive semi-definite"),
        ("2 - linear", "positive semi-definite"),
        ("linear - 2", "positive semi-definite"),
        ("linear + 2", "adds a number"),
        ("0 * rbf", "above 0"),
        ("3", "no kernel"),
        ("'rbf'", "no kernel"),
        ("", "cannot be read"),
        ("rbf(", "cannot be read"),
        ("rbf\0", "cannot be read"),
        ("rbf rbf", "cannot be read"),
        ("1.5 * " + "9" * 400 + " * rbf", "cannot be read|above 0"),
        ("(" * 300 + "rbf" + ")" * 300, "cannot be read"),
        ("-" * 5000 + "rbf", "cannot be read"),
        ("rbf" * 100_000, "at most"),
        ("rbf / 2", "are allowed"),
        ("rbf ** 2", "are allowed"),
        ("2 + 2", "are allowed"),
        ("'a' * 99", "are allowed"),
        ("-'a'", "are allowed"),
        ("True * rbf", "are allowed"),
        ("2j * rbf", "are allowed"),
        ("rbf(*[1])", "are allowed"),
        ("rbf(**{'gamma': 1})", "are allowed"),
        ("rbf()()", "are allowed"),
        ("rbf.bind", "are allowed"),
        ("rbf.bind(print)", "are allowed"),
        ("__import__('os').system('true')", "are allowed"),
        ("__import__('os')", "no kernel '__import__'"),
        ("[rbf][0]", "are allowed"),
        ("(lambda: rbf)()", "are allowed"),
        ("rbf if 1 else linear", "are allowed"),
        ("f'{rbf}'", "are allowed"),
        ("(k := rbf)", "are allowed"),
        ("Sum(rbf, linear)", "no kernel 'Sum'"),
        ("1if 1else 2", "are allowed|cannot be read"),
        ("PowerSeries(rbf, [1, -1])", "positive semi-definite"),
        ("PowerSeries(rbf, [0, 0])", "no coefficient above 0"),
        ("PowerSeries(rbf, [])", "list of numbers"),
        ("PowerSeries(rbf, 3)", "list of numbers"),
        ("PowerSeries(rbf, [1, 'a'])", "finite number"),
        ("PowerSeries([1], [1])", "a kernel is needed"),
        ("Exp(3)", "a kernel is needed"),
        ("Exp", "its parameters are: kernel"),
        ("Normalized('rbf')", "a kernel is needed"),
        ("Weighted(rbf, 'nothing of the kind')", "register"),
        ("FunctionKernel('nothing of the kind')", "register"),
        ("rbf.on([])", "are needed"),
        ("rbf.on(['a', 'a'])", "each once"),
        ("rbf.on(['a', 1])", "each once"),
        ("rbf.on([-1])", "not a column"),
        ("rbf.on([1.5])", "not a column"),
        ("rbf.on(['a'], at=[0, 1])", "a position each"),
        ("rbf.on(['a'], at=['b'])", "a position each"),
        ("rbf.on()", "are allowed"),
        ("rbf.on(['a'], to=[1])", "are allowed"),
        ("3.on(['a'])", "cannot be read|are allowed"),
        ("'a'.on(['a'])", "are allowed"),
        ("(1, 2) * rbf", "are allowed"),
        ("-[1]", "are allowed"),
        ("rbf, linear", "no kernel"),
        ("Selection(rbf, ['a'])", "no kernel 'Selection'"),
        ("Linear(A=[[1, 2], [0, 1]])", "not symmetric"),
        ("Linear(A=[[1, 2], [2, 1]])", "eigenvalue -1"),
        ("Linear(A=[[1, 2]])", "have not 1 numbers"),
        ("Linear(A=[1, 2])", "square matrix"),
        ("Linear(A=[[1, 'a'], [0, 1]])", "finite number"),
        ("ArcCosine(order=2)", "0 .steps. or 1"),
        ("SpectrumKernel(k=0)", "integer of at least 1"),
        ("SpectrumKernel() + linear", "which columns each is of"),
    ],
)
def test_refuses(text, says):
    with pytest.raises(RecipeError, match=says):
        parse(text)


def test_refuses_what_is_no_text():
    with pytest.raises(RecipeError, match="a kernel or its text"):
        parse(3)


numbers = st.floats(min_value=1e-30, max_value=1e30)
leaves = st.one_of(
    st.just(Linear()),
    st.builds(Polynomial, st.integers(1, 9), st.floats(0, 1e9)),
    st.builds(Gaussian, st.one_of(numbers, st.sampled_from(["auto", "median", "scale"]))),
    st.builds(Laplacian, numbers),
    st.builds(Gaussian, st.lists(numbers, min_size=1, max_size=3)),
    st.builds(Matern, st.floats(0.1, 50), st.one_of(numbers, st.just("median"))),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda c, a: c * a, st.floats(1e-3, 1e3), inner),
        st.builds(PowerSeries, inner, st.lists(numbers, min_size=1, max_size=3)),
        st.builds(lambda a: Normalized(Exp(a)), inner),
        st.builds(lambda a, names: a.on(names), inner, st.lists(st.text(max_size=5), min_size=1, unique=True)),
        st.builds(lambda a, at: a.on(at), inner, st.lists(st.integers(0, 99), min_size=1, unique=True)),
    ),
    max_leaves=12,
)


@examples(150)
@given(expressions)
def test_every_expression_reads_back(k):
    assert parse(repr(k)) == k


@examples(200)
@given(st.text(alphabet="rbf linear.on()+-*.,=0123456789'\"[]{}_:\\\n#", max_size=30))
def test_any_text_is_a_kernel_or_a_recipe_error(text):
    try:
        k = parse(text)
    except RecipeError:
        return
    assert parse(repr(k)) == k


def test_a_registered_function_is_no_kernel_by_its_bare_name():
    register("tests_of_texts", lambda X, Z: X @ Z.T)
    with pytest.raises(RecipeError, match=r"write FunctionKernel\('tests_of_texts'\)"):
        parse("tests_of_texts")


@pytest.mark.parametrize("cls", [cls for cls in _CLASSES.values() if cls.__module__ != "dkernel.kernels.functions"])
@pytest.mark.parametrize("wrong", [((), {"length_scal": 1.0}), ((1,) * 9, {})])
def test_python_and_text_refuse_arguments_alike(cls, wrong):
    args, named = wrong
    text = ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in named.items())])
    said = []
    for make in (lambda: cls(*args, **named), lambda: parse(f"{cls.__name__}({text})")):
        with pytest.raises(RecipeError, match=cls.__name__) as caught:
            make()
        said.append(str(caught.value))
    assert said[0] == said[1]


OF_SCIKIT_LEARN = [
    gaussian_processes.RBF([0.5, 2.0]),
    2.0 * gaussian_processes.RBF(0.7) + gaussian_processes.Matern(2.0, nu=2.5),
    0.5 * (gaussian_processes.RationalQuadratic(1.5, 0.5) + gaussian_processes.DotProduct(2.0)),
]


@pytest.mark.parametrize("theirs", OF_SCIKIT_LEARN, ids=str)
def test_what_to_write_for_a_kernel_of_scikit_learn_has_its_values(theirs):
    X = np.random.default_rng(0).normal(size=(5, 2))
    with pytest.raises(RecipeError) as caught:
        parse(theirs)
    ours = parse(str(caught.value).split("'")[1])
    np.testing.assert_allclose(ours(X, X), theirs(X), rtol=1e-12)
