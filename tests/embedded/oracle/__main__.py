"""`python -m tests.embedded.oracle --url URL --token TOKEN [GROUP-OR-CASE ...]`: what differs from the real server."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter

from tests.embedded.oracle.replay import CASES, Server, replay


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.embedded.oracle", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--limited-token", default="")
    parser.add_argument("--max-poll", type=float, default=5, metavar="S", help="longest wait of a polled step")
    parser.add_argument("--brief", action="store_true", help="only the counts")
    parser.add_argument("names", nargs="*", help="groups or cases; all by default")
    given = parser.parse_args()
    cases = [json.loads(path.read_text()) for path in sorted(CASES.glob("*.json"))]
    cases = [one for one in cases if not given.names or {one["case"], one["group"]} & set(given.names)]
    groups = {one["case"]: one["group"] for one in cases}
    server = Server(given.url, given.token, given.limited_token, max_poll_s=given.max_poll)
    results = asyncio.run(replay(server, cases))
    for result in (one for one in results if not one.ok and not given.brief):
        print(f"{result.case} {result.step}")
        for problem in result.problems[:8]:
            print("    ", json.dumps(problem, ensure_ascii=False)[:600])
    total = Counter(groups[one.case] for one in results)
    matched = Counter(groups[one.case] for one in results if one.ok)
    for group in sorted(total):
        print(f"{group:14} {matched[group]:4} of {total[group]:4} steps")
    print(f"{'all':14} {matched.total():4} of {total.total():4} steps")


if __name__ == "__main__":
    main()
