"""The learner: network, averaged weights and optimiser, and their transfer to and from a checkpoint."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from training.checkpoint import Checkpoint
from training.config import TrainSpec
from training.fit.distributed import World
from training.network import GLAIMConfig, OwnForm, build_network


class Average:
    """Exponential moving average of a model's weights, corrected for its start; with a decay of 0 a plain copy."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).eval()

    @torch.no_grad()
    def update(self, model: nn.Module, iteration: int) -> None:
        """Include the new weights; at the start the average follows fast."""
        decay = min(self.decay, (1 + iteration) / (10 + iteration)) if self.decay else 0.0
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1.0 - decay)


class Learner:
    """A seeded network on a device with its averaged weights and optimiser; training calls it through `fill`."""

    def __init__(self, model: GLAIMConfig, spec: TrainSpec, device: torch.device, world: World) -> None:
        torch.manual_seed(spec.seed)
        self.device, self.world, self.decay = device, world, spec.ema
        self.model = build_network(model).to(device)
        self.average = Average(self.model, spec.ema)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=spec.learning_rate)
        self._graphs = spec.compile and device.type == "cuda" and world.size == 1
        whole: nn.Module = self.model
        if spec.compile:  # CUDA graphs and the communication hooks of several processes do not go together
            whole = torch.compile(self.model, mode="reduce-overhead" if self._graphs else "default")
        self._network = world.parallel(whole, device)

    def fill(self, values: Tensor, observed: Tensor) -> Tensor:
        """Fill a batch [B, C, T], with dropout and gradients."""
        if self._graphs:
            torch.compiler.cudagraph_mark_step_begin()
        filled: Tensor = self._network(values, observed)
        return filled

    def set_form(self, form: OwnForm) -> None:
        """Give the network its closed form, of the same sizes."""
        for model in (self.model, self.average.model):
            model.form.load_state_dict(form.state_dict())

    def seed(self, seed: int) -> None:
        """Seed the random numbers of dropout, differently in each process."""
        torch.manual_seed(seed + 1_000_000_007 * self.world.rank)

    def step(self, loss: Tensor, iteration: int, rate: float, clip_norm: float) -> None:
        """Update the weights and their average; nothing here waits for the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        (loss * self.world.size).backward()  # the processes' gradients are averaged, their losses add up
        if clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm)
        self.optimiser.step()
        if self.decay:
            self.average.update(self.model, iteration)

    def averaged(self) -> nn.Module:
        """Return the network with the averaged weights."""
        if not self.decay:
            self.average.update(self.model, 0)
        return self.average.model

    def capture(self, state: Checkpoint) -> None:
        """Copy weights and optimiser into the state."""
        state.weights, state.averaged = on_host(self.model), on_host(self.averaged())
        state.optimiser = self.optimiser.state_dict()

    def capture_random(self, state: Checkpoint) -> None:
        """Copy the random states of dropout of all processes into the state. All must call."""
        state.torch_states = self.world.gather(torch.get_rng_state())
        if self.device.type == "cuda":
            state.cuda_states = self.world.gather(torch.cuda.get_rng_state(self.device))

    def restore(self, state: Checkpoint) -> None:
        """Load the state's weights and optimiser."""
        self.model.load_state_dict(state.weights)
        self.average.model.load_state_dict(state.averaged)
        if state.optimiser:
            self.optimiser.load_state_dict(state.optimiser)

    def restore_random(self, state: Checkpoint) -> bool:
        """Load the random states of dropout; False if the number of processes or the kind of device differs."""
        rank, size = self.world.rank, self.world.size
        if len(state.torch_states) != size or (self.device.type == "cuda" and len(state.cuda_states) != size):
            return False
        torch.set_rng_state(state.torch_states[rank])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state.cuda_states[rank], self.device)
        return True


def on_host(model: nn.Module) -> dict[str, Tensor]:
    """Copy a model's weights to the host's memory."""
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
