"""Pods started, watched and stopped: `cause` (how they ended, in words), `disk` (what they have written), `cpus` (those
that are somebody's own), `root` (the files of their images), `container` and `pod` (one of each, with a task), `agent`
(all of them), `usage` (what they use), `server` (their logs over HTTPS)."""
