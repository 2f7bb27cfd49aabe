"""Checks a TorchScript file against an allow list of operators, without torch and without loading it.

`torch.jit.load` is too late for a check: it compiles the archive's code and runs the `__setstate__` of its classes, and
an operator such as `aten::save` or `aten::from_file` writes or reads any file of the process. The archive is a ZIP file
with the code as text in a subset of Python's syntax, and with pickles that torch reads with an unpickler of its own.
Both are parsed here and never run. Whatever is not known to be harmless is refused: entries of the archive, syntax,
functions, classes and operators. A text that torch could read differently from Python (escapes, comments, two ends of
the archive) is refused as well.
"""

from __future__ import annotations

import ast
import contextlib
import io
import pickletools
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator

from glaim_stream.core.errors import ModelError, listed
from glaim_stream.models.operators import ALLOWED

_MAX_TEXT_BYTES = 16 * 1024**2  # code and pickles unpacked; those of a GLAIM have 0.1 MB
_PARSES = 5  # attempts; two threads meet rarely, and five times in a row never
_ENTRIES = re.compile(
    r"(data\.pkl|constants\.pkl|version|byteorder|\.data/(version|serialization_id)|\.format_version|"
    r"\.storage_alignment|(data|constants)/[0-9]+|code/[A-Za-z0-9_/]+\.py(\.debug_pkl)?)"
)
_END = struct.Struct("<4s4H2LH")  # end of a ZIP file's directory, without a comment
_TEXT = re.compile(r"[\n\x20-\x7e]*")
_STRING = re.compile(r'"([^"\\\n]|\\[\\"\'nt])*"|\'([^\'\\\n]|\\[\\"\'nt])*\'')
_SYNTAX = (
    ast.Module, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.Return, ast.Assign,
    ast.AnnAssign, ast.Expr, ast.Pass, ast.If, ast.For, ast.While, ast.Call, ast.Name, ast.Attribute, ast.Subscript,
    ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.USub, ast.Load, ast.Store,
)  # fmt: skip
_FUNCTIONS = frozenset({"annotate", "unchecked_cast", "uninitialized", "range", "getattr", "int", "float", "bool"})
_METHODS = frozenset({"forward", "__len__"})  # methods of any value; no operator has these names
_CLASSES = re.compile(
    r"__torch__(?!\.torch\.classes\b)[A-Za-z0-9_.]* [A-Za-z0-9_]+|collections OrderedDict|"
    r"torch (Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Storage|torch\._utils _rebuild_tensor_v2|"
    r"torch\.jit\._pickle (build_(int|tensor|double|bool)list|build_tensor_from_id|restore_type_tag)"
)
_OTHER_CALLS_OF_PICKLE = frozenset({"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4", "NEWOBJ_EX"})


class _Refused(Exception):
    """The reason why a file is refused."""


def require_known_operators(weights: bytes, more: frozenset[str] = frozenset()) -> None:
    """Check a TorchScript file.

    Args:
        weights: content of the file.
        more: operators to allow in addition, such as `aten::lstm`.

    Raises:
        ModelError: the file is not TorchScript, or has an operator or anything else that is not allowed.
    """
    try:
        unknown = sorted(_operators(weights) - ALLOWED - more)
    except _Refused as refused:
        raise ModelError(f"the weights are not loaded: {refused}") from refused
    if unknown:
        raise ModelError(
            f"the weights are not loaded: they use {listed(unknown)}, expected only operators that compute "
            "(GLAIM_MODEL_OPERATORS admits more)"
        )


def operators_of(weights: bytes) -> frozenset[str]:
    """The operators that a TorchScript file calls, such as `aten::add`.

    Raises:
        ModelError: the file cannot be checked.
    """
    try:
        return frozenset(_operators(weights))
    except _Refused as refused:
        raise ModelError(str(refused)) from refused


def _operators(weights: bytes) -> set[str]:
    found: set[str] = set()
    for name, content in _texts(weights):
        if name.endswith(".py"):
            found |= _operators_of_code(content, name)
        else:
            _require_known_classes(content, name)
    return found


def _texts(weights: bytes) -> Iterator[tuple[str, bytes]]:
    """Code and pickles of the archive, by their names below its root folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(weights)) as archive:
            _require_one_reading(weights, archive)
            roots = {entry.filename.partition("/")[0] for entry in archive.infolist()}
            if len(roots) != 1:
                raise _Refused(f"expected one folder in the archive, found {len(roots)}")
            budget = _MAX_TEXT_BYTES
            for entry in archive.infolist():
                name = entry.filename.partition("/")[2]
                if not _ENTRIES.fullmatch(name):
                    raise _Refused(f"expected no {name!r} in the archive")
                if name.endswith((".py", "pkl")):
                    budget -= entry.file_size
                    if budget < 0:
                        raise _Refused(f"expected code of at most {_MAX_TEXT_BYTES} bytes, found more")
                    yield name, archive.read(entry)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, OSError) as error:
        raise _Refused(f"expected TorchScript, found a file that cannot be read as such: {error}") from error


def _require_one_reading(weights: bytes, archive: zipfile.ZipFile) -> None:
    """Raise unless every reader of ZIP files finds the same entries."""
    end = weights[-_END.size :]
    signature, *_, directory_bytes, directory, comment_bytes = _END.unpack(end)
    names = [entry.filename for entry in archive.infolist()]
    if (
        signature != b"PK\5\6" or comment_bytes or not weights.startswith(b"PK\3\4")
        or archive.start_dir != directory or directory + directory_bytes > len(weights)
        or len({name.lower() for name in names}) != len(names)
    ):  # fmt: skip
        raise _Refused("expected one ZIP archive and nothing before or after it, and no name twice")


def _operators_of_code(code: bytes, name: str) -> set[str]:
    try:
        text = code.decode("ascii")
        if not _TEXT.fullmatch(text):
            raise _Refused(f"{name} has control characters")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT or (
                token.type == tokenize.STRING and not _STRING.fullmatch(token.string)
            ):
                raise _Refused(f"{name}, line {token.start[0]}: expected no comment and no unusual text")
        return _Code(name, _parse(text)).operators()
    except (SyntaxError, ValueError, tokenize.TokenError, RecursionError, MemoryError, SystemError) as error:
        raise _Refused(f"{name} cannot be read: {error}") from error


def _parse(text: str) -> ast.Module:
    """Parse the text, again where another parse came in between.

    CPython 3.11 counts the depth of all parses of a process in one place. A parse that another one interrupts, in a
    second thread or in the garbage collector, ends in a `SystemError` (https://github.com/python/cpython/issues/106905).
    """
    for _ in range(_PARSES - 1):
        with contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


class _Code:
    """The code of one file: its syntax, and what it calls."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name, self._tree = name, tree
        self._called: set[int] = set()  # ids of the nodes in the place of a function
        self._functions = {  # names that functions of the archive are given
            part.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and _dotted(node.value)[:1] == ["__torch__"]
            for target in node.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name)
        }

    def operators(self) -> set[str]:
        """The operators that the code calls."""
        self._require_flat()
        found = set()
        for node in ast.walk(self._tree):
            if not isinstance(node, _SYNTAX):
                raise self._refused(node, f"expected no {type(node).__name__}")
            if isinstance(node, ast.Call):
                operator = self._called_by(node)
                if operator:
                    found.add(operator)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
                raise self._refused(node, "expected no decorator")
        for node in ast.walk(self._tree):
            # Elsewhere an operator could be given another name, and a name of the rules another meaning.
            if isinstance(node, ast.Name) and id(node) not in self._called:
                if node.id in ("torch", "ops"):
                    raise self._refused(node, f"expected {node.id} in calls only")
                if isinstance(node.ctx, ast.Store) and node.id in ("self", *_FUNCTIONS):
                    raise self._refused(node, f"expected no new meaning of {node.id}")
            if isinstance(node, ast.Attribute) and _dotted(node)[:3] == ["__torch__", "torch", "classes"]:
                raise self._refused(node, "expected no class of a library")
        return found

    def _called_by(self, call: ast.Call) -> str:
        """The operator that a call names; empty for other calls that are allowed."""
        path = _dotted(call.func)
        if path[:1] in (["torch"], ["ops"]) and len(path) == (2 if path[0] == "torch" else 3):
            for part in ast.walk(call.func):
                self._called.add(id(part))
            return f"aten::{path[1]}" if path[0] == "torch" else f"{path[1]}::{path[2]}"
        if len(path) == 1 and (path[0] in _FUNCTIONS or path[0] in self._functions):
            return ""
        if path[:1] == ["__torch__"] or (path[:1] == ["self"] and len(path) == 2):
            return ""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
            return ""
        raise self._refused(call, f"expected no call of {ast.unparse(call.func)[:80]}")

    def _require_flat(self) -> None:
        """`self` must be an object of the archive, whose methods are those of the archive: so only in a method."""
        flat = {id(node) for node in self._tree.body}
        for part in self._tree.body:
            if isinstance(part, ast.ClassDef):
                flat |= {id(method) for method in part.body if isinstance(method, ast.FunctionDef)}
            elif isinstance(part, ast.FunctionDef) and any(each.arg == "self" for each in _arguments(part)):
                raise self._refused(part, "expected no function with an argument self outside of a class")
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and id(node) not in flat:
                raise self._refused(node, f"expected no {node.name} within other code")
            if isinstance(node, ast.FunctionDef) and any(each.arg == "self" for each in _arguments(node)[1:]):
                raise self._refused(node, "expected self as the first argument")

    def _refused(self, node: ast.AST, reason: str) -> _Refused:
        return _Refused(f"{self._name}, line {getattr(node, 'lineno', 0)}: {reason}")


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]


def _dotted(node: ast.expr) -> list[str]:
    """`a.b.c` as its names, empty for other expressions."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _require_known_classes(pickled: bytes, name: str) -> None:
    try:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name in _OTHER_CALLS_OF_PICKLE:
                raise _Refused(f"{name} uses {opcode.name}")
            if opcode.name == "GLOBAL" and not _CLASSES.fullmatch(str(argument)):
                raise _Refused(f"{name} names {argument!r}")
    except ValueError as error:
        raise _Refused(f"{name} is not a pickle: {error}") from error
