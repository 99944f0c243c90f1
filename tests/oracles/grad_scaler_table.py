"""Prints the scales of torch.amp.GradScaler that lockstep/optim/loss_scale_test.cpp holds."""

import torch

STEPS = "...x..x.......xx...x"  # '.' a good step, 'x' one with a gradient that is not finite


def scales(steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    scaler.scale(torch.zeros(1))
    for step in steps:
        parameter.grad = torch.full((1,), float("inf") if step == "x" else 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield scaler.get_scale()


if __name__ == "__main__":
    print(", ".join(f"{scale:g}" for scale in map(int, scales(STEPS))))
