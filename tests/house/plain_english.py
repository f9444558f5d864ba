"""Find the sentences of Python and Markdown files that are hard to read, with the reason for each.

    python -m tests.house.plain_english src docs            # file:line, the sentence, and why
    python -m tests.house.plain_english --summary src docs  # shares by package, and the worst files

The module reads docstrings, comments, and the paragraphs, list items and table cells of Markdown files. It knows no
grammar. It looks for patterns of sentences that a reader who knows Slurm and Kubernetes, but not this code, could not
restate (*hard*) or had to read twice (*odd*). One STRONG pattern is enough to flag a sentence; two WEAK ones are.

The patterns were measured on samples that were drawn after they were fixed. Of 80 flagged sentences 67 needed a
rewrite, 19 of these were hard. Of 120 random sentences the patterns found 8 of the 15 hard ones and 11 of the 32 odd
ones. So the checker misses half of the hard sentences: a sentence that it passes is not yet plain.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern of a hard sentence. `reason`: what is wrong, for the writer of the sentence."""

    reason: str
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a file. `line`: where it begins. `reasons`: why it is hard to read; empty for a plain sentence."""

    line: int
    text: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """How many of `seen` sentences are `flagged`."""

    flagged: int
    seen: int

    @property
    def percent(self) -> float:
        return 100 * self.flagged / self.seen if self.seen else 0.0


VERB = r"\b(?:is|are|was|were|has|have|had|can|may|must|takes?|counts?|gives?|keeps?|goes)\b"
STRONG = tuple(
    Rule(reason, re.compile(pattern))
    for reason, pattern in (
        ("a fragment that opens with `Of`: name the subject", rf"^Of (?!course|\d)(?![^.;]*{VERB})"),
        ("a fragment of a sentence", r"^(?:whose|whoever|who|that|among|said|and of) (?!is\b)\w+"),
        (
            "a clause without its noun is the subject",
            r"(?:^|; )(?:Whose|Who|Whom|Whoever|whose|whoever|who) (?![^?]*\?)",
        ),
        (
            "a clause without its noun is the subject",
            r"^(?:What|Whatever|That) (?!if\b)[^:?`|]{3,60}?\b(?:is|are|has|goes|stays|comes|says|means)\b(?![^.]*\?)",
        ),
        (
            "a parameter is explained by a fragment",
            r"`[\w.\[\]]+`(?:, `[\w.\[\]]+`)*: "
            r"(?:of|that|whose|which|who|whom|in which|for which|those|there|others?)\b",
        ),
        (
            "`so many`, `so much` stand for a value: name it",
            r"\b(?:[Ss]o (?:many|much)|as (?:much|many|long) as is)\b(?![^.;]*\bthat\b)",
        ),
        ("`what of`: name the thing", r"\b(?:[Ww]hat of|[Ww]ho of|[Ww]hat all|of whom|for whom) \w+"),
        ("`whoever`, `whom`: name who", r"\b(?:[Ww]hoever|[Ww]hom)\b"),
        (
            "`for` as a conjunction: write `because`",
            r"[,;] for (?:it|its|they|that|nobody|this|he|names|no)\b(?! \w+ (?:of|to))",
        ),
        (
            "the verb stands before its subject",
            r"^(?:What|Who|Whose|Which|How|Where|Whether)\b[^.]*, (?:says|tells|decides|knows) ",
        ),
        (
            "`is another`: write `has changed`, or which one",
            r"\b(?:is|are|was|becomes?) (?:another|others)\b(?! \w+'s)",
        ),
        (
            "a phrase that only this code has",
            r"\b(?:untold|com(?:es?|ing) up\b(?! to)|came up|(?:its|whose|their) turn\b|stands? by\b(?! until)|"
            r"g[ai]v(?:es?|ing) way|by right|holds? up|told (?:anew|so)|come to stand|came to nothing|keeps? out)",
        ),
        (
            "an owner without a name",
            r"\b(?:another's|others'|somebody else's|theirs)(?!\w)|\b(?:is|are) (?:theirs|his)\b",
        ),
        (
            "the subject is a pronoun, and there is no verb",
            r"^(?:All|Each|Those|The same|Another|Others|Everybody|Nothing)\b"
            r"(?:(?!\b(?:is|are|has|have|was|were|may|must|can|shall|will|[a-z]+s)\b)[^.;:`])*\.?$",
        ),
    )
)
WEAK = tuple(
    Rule(reason, re.compile(pattern))
    for reason, pattern in (
        ("a fragment that opens with `of`: name the subject", r"^of \w+"),
        (
            "`Return what ...`: name what comes back",
            r"^(?:Return|Yield|Note|Say|Tell) "
            r"(?:what|who|whom|whose|those|them|it|all(?! \w+s\b)|others|which|how|one)\b",
        ),
        ("`tell`, `told`, `said`: write who reports what to whom", r"\b(?:tells?|told|said)\b"),
        (
            "`nobody`, `somebody`: name the job, the queue or the user",
            r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ee]verybody)\b",
        ),
        ("an old word", r"\b(?:anew|besides?|in vain|for want of|elsewhere|hitherto)\b"),
        ("`stands` for `is`", r"\b(?:stands?|stood)\b(?! for)"),
        ("`here`, `there` without a place", r"\b(?:[Hh]ere|there)\b(?! (?:is|are|was|were|may|can|must)\b)"),
        ("`such`, `so`: repeat the noun", r"\bsuch (?!as|that|an?)\w+|\b(?:does|told|said) so\b"),
        ("`we`, `his`: name who", r"\b(?:[Ww]e|[Oo]ur|ours|us|[Hh]is|him)\b"),
        (
            "a clause without its noun",
            r"\b(?:what|who) (?:is(?! wrong)|has|was|are|have|waits?|runs?|asks?|cannot|does|goes|stays|could|may|had|"
            r"lacks?|fits?)\b",
        ),
    )
)
POINTERS = re.compile(
    r"\b(?:it|its|they|them|their|theirs|that|those|this|these|which|who|whom|whose|what|whoever|whatever|ones?|"
    r"others?|another|such|some|any|each|all|so|there|none|somebody|anybody|nobody|he|his|him|we|us|ours)\b",
    re.IGNORECASE,
)
# A sentence ends at a full stop before a capital letter, at an empty line, and before an item of a list or a term.
SENTENCE = re.compile(
    r".+?(?:[.!?](?=[\s)\"]+[A-Z`\"(*])|\n[ \t]*\n|\n(?=[ \t]*(?:[-*|] |\d+\. |`\w+`[:,]|\w\S* {2,}))|\Z)", re.DOTALL
)
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![ \t]*(?:[-*] |\d+\. |\||#|\n))[^\n]+)*")
# In Python a `#` begins a comment, except in a string. (`tokenize` finds comments too, and takes many times as long.)
STRING_OR_COMMENT = re.compile(
    r"'''(?:\\.|[^\\])*?'''|"
    r'"""(?:\\.|[^\\])*?"""|'
    r"'(?:\\.|[^\\'\n])*'|"
    r'"(?:\\.|[^\\"\n])*"|'
    r"(?P<comment>#[^\n]*)",
    re.DOTALL,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def reasons_of(sentence: str) -> tuple[str, ...]:
    """Return the reasons why the sentence is hard to read; empty if it is plain as far as the patterns know."""
    strong = [rule.reason for rule in STRONG if rule.pattern.search(sentence)]
    weak = [rule.reason for rule in WEAK if rule.pattern.search(sentence)]
    words = len(re.findall(r"[A-Za-z']+", re.sub(r"`[^`]*`", "X", sentence)))
    pointers = len(POINTERS.findall(sentence))
    if pointers >= 3 and pointers >= 0.2 * words:
        crowded = pointers >= 5 and pointers >= 0.3 * words
        (strong if crowded else weak).append(f"{pointers} of {words} words only point to another word")
    return tuple(dict.fromkeys(strong + weak)) if strong or len(weak) > 1 else ()


def sentences_of(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a Python or a Markdown file that have three words or more."""
    source = path.read_text()
    for line, text in markdown_texts(source) if path.suffix == ".md" else python_texts(source):
        for match in SENTENCE.finditer(text):
            sentence = LINK_TARGET.sub("", " ".join(match.group().split())).strip(" |*-")
            if len(sentence.split()) > 2:
                skipped = len(match.group()) - len(match.group().lstrip())
                start = line + text.count("\n", 0, match.start() + skipped)
                yield Sentence(start, sentence, reasons_of(sentence))


def markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each paragraph, list item and table cell. Headings and code blocks are left out."""
    source = CODE_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), source)
    for match in PARAGRAPH.finditer(source):
        line, text = source.count("\n", 0, match.start()) + 1, match.group()
        if not text.startswith(("#", "    ", "<!--", "![")):
            yield from ((line, cell) for cell in (text.strip("|").split("|") if text[0] == "|" else [text]))


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring, and of each run of comments on consecutive lines."""
    tree = ast.parse(source)
    for node in (tree, *statements(tree.body)):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            yield node.body[0].lineno, docstring
    block: list[re.Match[str]] = []
    for comment in (found for found in STRING_OR_COMMENT.finditer(source) if found["comment"]):
        if comment[0].startswith(("# ---", "#!", "# noqa", "# type:")):
            continue
        if block and not continues(source, block[-1], comment):
            yield text_of(source, block)
            block = []
        block.append(comment)
    if block:
        yield text_of(source, block)


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all statements in `body`, and the statements inside them."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            if isinstance(inner := getattr(node, part, None), list):
                yield from statements(inner)


def continues(source: str, before: re.Match[str], comment: re.Match[str]) -> bool:
    """Return whether the comment `before` has its line for itself, and `comment` is the whole next line."""
    line = source[source.rfind("\n", 0, before.start()) + 1 : before.start()]
    between = source[before.end() : comment.start()]
    return not line.strip() and not between.strip() and between.count("\n") == 1


def text_of(source: str, block: list[re.Match[str]]) -> tuple[int, str]:
    """Return (line, text) of comments on consecutive lines."""
    text = "\n".join(comment[0].lstrip("#: ") for comment in block)
    return source.count("\n", 0, block[0].start()) + 1, text


def files_of(paths: list[Path]) -> Iterator[Path]:
    """Yield the Python and Markdown files among and below `paths`."""
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.suffix in {".py", ".md"})


def share(paths: list[Path]) -> Share:
    """Return how many sentences of the files among and below `paths` are flagged."""
    found = [sentence for file in files_of(paths) for sentence in sentences_of(file)]
    return Share(flagged=sum(1 for sentence in found if sentence.reasons), seen=len(found))


def package_of(path: Path) -> str:
    """Return the package of a file for the summary: two folders below `docs` and `tests`, three below `src`."""
    folders = path.parent.parts
    at = next((index for index, name in enumerate(folders) if name in {"src", "docs", "tests"}), 0)
    return "/".join(folders[at : at + 2 + ("src" in folders)]) or str(path)


def print_summary(paths: list[Path]) -> None:
    """Print the share of each package, and the 40 files with the most flagged sentences."""
    packages: dict[str, list[Path]] = {}
    worst = Counter[str]()
    for file in files_of(paths):
        packages.setdefault(package_of(file), []).append(file)
        worst[str(file)] = share([file]).flagged
    shares = {package: share(files) for package, files in packages.items()}
    for package, found in sorted(shares.items(), key=lambda item: -item[1].percent):
        print(f"{found.percent:5.1f} %  {found.flagged:5} of {found.seen:5}  {package}")
    print("\n".join(f"{count:5}  {name}" for name, count in worst.most_common(40) if count))


def main() -> None:
    """Print the flagged sentences of the files that the command line names, or a summary of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders")
    parser.add_argument("--summary", action="store_true", help="print shares by package, and the 40 worst files")
    arguments = parser.parse_args()
    if arguments.summary:
        print_summary(arguments.paths)
    else:
        for file in files_of(arguments.paths):
            for sentence in sentences_of(file):
                if sentence.reasons:
                    print(f"{file}:{sentence.line}: {sentence.text}\n    {'; '.join(sentence.reasons)}")
    total = share(arguments.paths)
    print(f"{total.flagged} of {total.seen} sentences are flagged")


if __name__ == "__main__":
    main()
