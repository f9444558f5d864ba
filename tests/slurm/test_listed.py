"""Lists of sacctmgr, as a real Slurm 22.05 printed them."""

from __future__ import annotations

import pytest

from phalanx.slurm.cluster.api import ApiClient
from phalanx.slurm.commands.accounting.entities import listed as lists
from phalanx.slurm.options import Usage
from tests.slurm.account_trees import MADE, SITE


@pytest.mark.parametrize(
    ("line", "rows"),
    [  # what a real Slurm 22.05 printed for associations that were made in the order of their numbers
        ("", "1|1|26|root| 2|24|25|root|root 9|2|7|aaa| 13|3|4|aaa|u1 11|5|6|aaa|u3 4|8|17|chem| 12|9|10|chem|u1 "
         "6|15|16|chem|u2 8|11|14|sub| 10|12|13|sub|u3 3|18|23|physics| 5|21|22|physics|u1 7|19|20|physics|u2"),
        ("wopi", "13|3|4|aaa|u1 11|5|6|aaa|u3 12|9|10|chem|u1 10|12|13|sub|u3 6|15|16|chem|u2 7|19|20|physics|u2 "
         "5|21|22|physics|u1 2|24|25|root|root 1|1|26|root| 9|2|7|aaa| 4|8|17|chem| 8|11|14|sub| 3|18|23|physics|"),
        ("user=U2,u3", "6|15|16|chem|u2 7|19|20|physics|u2 11|5|6|aaa|u3 10|12|13|sub|u3"),
        ("account=PHYSICS", "3|18|23|physics| 5|21|22|physics|u1 7|19|20|physics|u2"),
        ("parent=root tree", "9|2|7|aaa| 4|8|17|chem| 3|18|23|physics|"),
        ("parent= user=u1", "13|3|4|aaa|u1 12|9|10|chem|u1 5|21|22|physics|u1"),
    ],
)  # fmt: skip
def test_associations_are_in_the_order_of_their_creation(
    line: str, rows: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ApiClient, "open", lambda: None)
    monkeypatch.setattr(lists.site, "load", lambda api: MADE)
    lists.show(["assoc", "format=id,lft,rgt,account,user", *line.split()], {"noheader": None, "parsable2": None})
    assert capsys.readouterr().out.split() == rows.split()


@pytest.mark.parametrize(
    ("kind", "word", "told"),
    [("account", "pa=1", " Use keyword 'set' to modify value"), ("association", "a=1", " Unknown condition: a=1"),
     ("association", "chem", "Invalid value for AssocId (chem)"), ("qos", "x=1", "modify SLURM_PRINT_VALUE")],
)  # fmt: skip
def test_conditions_that_do_not_exist(kind: str, word: str, told: str) -> None:
    with pytest.raises(Usage) as error:
        lists._read(kind, [word])
    assert error.value.text.endswith(told)


@pytest.mark.parametrize(
    ("option", "printed"),
    [
        ("parsable", "Federation|Cluster|ID|Features|FedState|\n"),
        ("parsable2", "Federation|Cluster|ID|Features|FedState\n"),
    ],
)
def test_federations_have_names_between_bars(
    option: str, printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ApiClient, "open", lambda: None)
    monkeypatch.setattr(lists.site, "load", lambda api: SITE)
    assert lists.show(["federation"], {option: None}) == 0
    assert capsys.readouterr().out == printed
