"""Volcano (`batch.volcano.sh`, `scheduling.volcano.sh`, ...): its queues, its gangs, its answers."""
