"""`phalanx completion SHELL`: print the script with which a shell completes commands, options and names of jobs."""

from __future__ import annotations

import sys
from typing import Literal

_SCRIPTS = {
    "bash": """_phalanx() {
    local IFS=$'\\n'
    COMPREPLY=($(phalanx complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null))
}
complete -o default -F _phalanx phalanx
""",
    "zsh": """#compdef phalanx
_phalanx() {
    local -a found
    found=("${(@f)$(phalanx complete -- "${words[@]:1:$((CURRENT - 1))}" 2> /dev/null)}")
    if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
}
# A file of $fpath is the body of the function at its first call; otherwise this file was sourced.
if [[ "$funcstack[1]" == _phalanx ]]; then _phalanx "$@"; else compdef _phalanx phalanx; fi
""",
    "fish": """complete --command phalanx --arguments \\
    '(phalanx complete -- (commandline -opc)[2..-1] (commandline -ct) 2> /dev/null)'
""",
}


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script with which a shell completes the commands of `phalanx`, their options, and names of jobs and
    queues.

    For example:

        source <(phalanx completion bash)                              # for this shell; or in ~/.bashrc
        phalanx completion zsh > ~/.zfunc/_phalanx                     # a folder of $fpath
        phalanx completion fish > ~/.config/fish/completions/phalanx.fish

    Parameters
    ----------
    shell
        The shell.
    """
    sys.stdout.write(_SCRIPTS[shell])
