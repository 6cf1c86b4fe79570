"""The house rules that no linter knows. A limit that cannot hold yet is a ratchet that only goes down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("accounts", "billing", "catalog", "config", "console", "ground", "routing", "simulators", "webhooks")
FUNCTION_MAX_LINES = 60
MODULE_MAX_LINES = 400
TEMPLATE_MAX_LINES = 120
TASK_MAX_STATEMENTS = 5
UNIT = re.compile(
    r"_(micro_usd|pico_usd|micro_usd_per_(mtok|minute|percent)|basis_points|ppm|percent|per_mille|tokens|rows|bytes|px"
    r"|per_minute|tokens_limit|per_job|count|ms|ns|seconds|minutes|id|version|versions_made|characters)$|^tokens$"
)
MEASURED = re.compile(
    r"(charge|cost|price|fee|(?<!gene)rate|amount|credit|balance|reserv|receivable|token|size|timeout|delay|wait|age|span)"
)
BARE = {"amount", "cost", "price", "data", "info", "obj", "limit", "timeout", "size", "date"}
# OpenAI's file object and its usage say it so.
OPENAIS_OWN = {"bytes"}
MONEY = re.compile(r"(charge|cost|price|fee|rate|amount|credit|balance|reserv|receivable)")


def modules(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def length_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{name_of(path)}:{node.name} has {length_of(node)} lines"
        for path, tree in modules(*APPS)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length_of(node) > FUNCTION_MAX_LINES
    ]
    assert long == []


def test_no_module_is_longer_than_its_limit() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path, _ in modules(*APPS)}
    assert {name_of(path): count for path, count in lengths.items() if count > MODULE_MAX_LINES} == {}


def test_no_template_is_longer_than_its_limit() -> None:
    lengths = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "templates").rglob("*.html")
    }
    assert {name: count for name, count in lengths.items() if count > TEMPLATE_MAX_LINES} == {}


def test_every_app_says_what_it_is() -> None:
    for app in APPS:
        docstring = ast.get_docstring(ast.parse((ROOT / app / "__init__.py").read_text(encoding="utf-8")))
        assert docstring, f"{app}/__init__.py says nothing"


def test_domain_records_are_frozen() -> None:
    loose = [
        f"{name_of(path)}:{node.name}"
        for path, tree in modules(
            "routing/domain",
            "billing/domain",
            "billing/reconciliation/domain",
            "catalog/domain",
            "webhooks/domain",
            "accounts/domain",
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and getattr(decorator.func, "id", "") == "dataclass"
        # A name with an underscore, or a class that acts, is a module's tool and not a record that travels.
        and not node.name.startswith("_")
        and not any(isinstance(part, ast.FunctionDef) and not part.decorator_list for part in node.body)
        and "frozen" not in {keyword.arg for keyword in decorator.keywords}
    ]
    assert loose == []


def integer_fields(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                if ast.unparse(field.annotation) in {"int", "int | None"}:
                    yield node, field.target.id
            elif isinstance(field, ast.Assign) and "IntegerField" in ast.unparse(field.value):
                yield node, ast.unparse(field.targets[0])


def test_a_number_has_its_unit_in_its_name() -> None:
    bare = [
        f"{name_of(path)}:{node.name}.{field}"
        for path, tree in modules("routing", "billing", "catalog", "webhooks", "accounts")
        for node, field in integer_fields(tree)
        if field in BARE or (MEASURED.search(field) and not UNIT.search(field) and field not in OPENAIS_OWN)
    ]
    assert bare == []


def test_money_is_never_a_float() -> None:
    floats = [
        f"{name_of(path)}:{node.name}.{ast.unparse(field.target)}"
        for path, tree in modules("routing", "billing", "catalog")
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and "float" in ast.unparse(field.annotation)
        and MONEY.search(ast.unparse(field.target))
        and "error_rate" not in ast.unparse(field.target)
    ]
    assert floats == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/tasks.py")), ids=name_of)
def test_every_task_is_thin(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("shared_task" in ast.unparse(d) for d in node.decorator_list):
            assert len(node.body) - 1 <= TASK_MAX_STATEMENTS, f"{node.name} holds rules"


def test_every_setting_of_ours_is_documented() -> None:
    documented = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    named = {
        name
        for path, tree in modules("config")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        for name in [str(node.args[0].value)]
    }
    assert {name for name in named if f"`{name}`" not in documented} == set()


def test_every_sweep_has_a_task() -> None:
    from config.schedule import SECONDS_BETWEEN

    tasks = " ".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*/tasks.py"))
    assert {name for name in SECONDS_BETWEEN if f'name="{name}"' not in tasks} == set()


def test_only_base_html_opens_a_document() -> None:
    documents = [
        name_of(path)
        for path in (ROOT / "templates").rglob("*.html")
        if "<html" in re.sub(r"{% comment %}.*?{% endcomment %}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    ]
    assert documents == ["templates/base.html"]


def test_decisions_name_every_dependency() -> None:
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").lower()
    wanted = {
        re.split(r"[\[~=<>]", line.strip())[0].lower()
        for file in ("run.in", "dev.in")
        for line in (ROOT / "requirements" / file).read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith(("#", "-"))
    }
    assert {name for name in wanted if f"`{name}`" not in decisions} == set()
