"""Progress is logged as lines without a terminal, and shown as a bar in one."""

import io

from training.runtime import ProgressLine, describe


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_logs_its_progress_every_half_minute_and_short_work_logs_nothing() -> None:
    now, lines = [0.0], list[str]()
    progress = ProgressLine(lines.append, io.StringIO(), lambda: now[0])
    progress.begin("epoch 1/3", 100)
    for _ in range(100):
        now[0] += 1.0
        progress.step(lambda: ", loss 0.5000")
    progress.end()
    assert lines == [
        "epoch 1/3: 30 of 100, loss 0.5000, 1 it/s, 1m10s left",
        "epoch 1/3: 60 of 100, loss 0.5000, 1 it/s, 0m40s left",
        "epoch 1/3: 90 of 100, loss 0.5000, 1 it/s, 0m10s left",
    ]
    lines.clear()
    progress.begin("validation", 5)
    for _ in range(5):
        now[0] += 1.0
        progress.step()
    assert not lines


def test_the_pace_of_a_resumed_epoch_counts_only_the_steps_since() -> None:
    now, lines = [0.0], list[str]()
    progress = ProgressLine(lines.append, io.StringIO(), lambda: now[0])
    progress.begin("epoch 2/3", 100, done=50)
    for _ in range(10):
        now[0] += 4.0
        progress.step()
    assert lines == ["epoch 2/3: 58 of 100, 0.25 it/s, 2m48s left"]


def test_the_loss_is_not_computed_while_no_line_is_due() -> None:
    progress = ProgressLine(lambda _: None, io.StringIO(), lambda: 0.0)
    progress.begin("epoch", 10)

    def loss_text() -> str:
        raise AssertionError("the loss must not be computed")

    progress.step(loss_text)


def test_a_terminal_gets_a_bar_and_no_lines() -> None:
    lines, terminal = list[str](), Terminal()
    progress = ProgressLine(lines.append, terminal)
    progress.begin("epoch 1/3", 2)
    progress.step()
    progress.end()
    assert not lines
    assert "epoch 1/3" in terminal.getvalue()
    hidden = Terminal()
    progress = ProgressLine(lines.append, hidden, hidden=True)
    progress.begin("epoch 1/3", 2)
    progress.step()
    assert not hidden.getvalue()


def test_durations_are_short() -> None:
    assert [describe(seconds) for seconds in (5, 185, 3725)] == ["0m05s", "3m05s", "1h02m"]
