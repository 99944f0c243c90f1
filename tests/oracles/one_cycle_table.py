"""Prints the rates of torch.optim.lr_scheduler.OneCycleLR that lockstep/optim/schedule_test.cpp holds."""

import warnings

import torch

PEAK = 0.4


def rates(total_steps):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=PEAK, total_steps=total_steps)
    for step in range(total_steps):
        yield optimizer.param_groups[0]["lr"]
        if step + 1 < total_steps:
            schedule.step()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the optimizer itself takes no step here
    for total_steps in (10, 7):
        print(total_steps, ", ".join(repr(rate) for rate in rates(total_steps)))
