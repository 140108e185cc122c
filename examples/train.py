#!/usr/bin/env python3
"""Train a small classifier on a folder of JPEG files, one sub-folder a class.

An ordinary PyTorch program: it knows nothing of adloader, and nothing in it was changed for
adloader. train.sbatch runs it, README.md says what its owner then sees.

    adltrain make-data photos --images 500
    python3 train.py photos --workers 4 --seconds 30
"""

import argparse
import concurrent.futures
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler
from torchvision import datasets, transforms


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="folder with one sub-folder of JPEG files a class")
    parser.add_argument("--workers", type=int, default=2, help="of the DataLoader (0: the main thread loads)")
    parser.add_argument("--threads", type=int, default=0, help="load with so many threads instead")
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--persistent", action="store_true", help="keep the workers between epochs")
    parser.add_argument("--epochs", type=int, default=1000000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--crop", type=int, default=96, help="side of the pictures, pixels")
    parser.add_argument("--width", type=int, default=8, help="channels of the model's first layer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--losses", help="write the loss of every step to this file")
    parser.add_argument("--steps", help="write time (seconds since the epoch) and samples of every step to this file")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between lines of progress")
    return parser.parse_args()


class ThreadLoader:
    """Batches of a data set loaded by a pool of threads, as several loaders of today do."""

    def __init__(self, dataset, batch, threads, generator):
        self.dataset, self.batch, self.ahead = dataset, batch, 2 * threads
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)
        self.sampler = RandomSampler(dataset, generator=generator)

    def load(self, indices):
        samples = [self.dataset[i] for i in indices]
        return torch.stack([s[0] for s in samples]), torch.tensor([s[1] for s in samples])

    def __iter__(self):
        order = list(self.sampler)
        batches = [order[i : i + self.batch] for i in range(0, len(order), self.batch)]
        waiting = []
        for indices in batches:
            waiting.append(self.pool.submit(self.load, indices))
            if len(waiting) > self.ahead:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def make_loader(options, dataset, generator):
    if options.threads > 0:
        return ThreadLoader(dataset, options.batch, options.threads, generator)
    return DataLoader(
        dataset,
        batch_size=options.batch,
        shuffle=True,
        generator=generator,
        num_workers=options.workers,
        multiprocessing_context=options.start_method if options.workers > 0 else None,
        persistent_workers=options.persistent and options.workers > 0,
    )


def make_model(classes, width):
    return nn.Sequential(
        nn.Conv2d(3, width, 7, stride=4), nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes),
    )  # fmt: skip


def main():
    options = arguments()
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    dataset = datasets.ImageFolder(
        options.data,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(options.crop),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        ),
    )
    model = make_model(len(dataset.classes), options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    measure = nn.CrossEntropyLoss()
    loader = make_loader(options, dataset, generator)
    losses = open(options.losses, "w") if options.losses else None
    steps = open(options.steps, "w", buffering=1) if options.steps else None
    print(f"{len(dataset)} pictures, {len(os.sched_getaffinity(0))} CPUs", flush=True)

    begin = last = time.monotonic()
    samples = seen = 0
    for epoch in range(options.epochs):
        for pictures, labels in loader:
            optimizer.zero_grad()
            loss = measure(model(pictures), labels)
            loss.backward()
            optimizer.step()
            samples += len(labels)
            if losses:
                losses.write(f"{loss.item():.9g}\n")
            if steps:
                steps.write(f"{time.time():.3f} {len(labels)}\n")
            now = time.monotonic()
            if now - last >= options.interval:
                print(
                    f"{now - begin:7.1f} s  epoch {epoch}  loss {loss.item():.4f}  "
                    f"{(samples - seen) / (now - last):7.1f} pictures/s",
                    flush=True,
                )
                last, seen = now, samples
            if now - begin >= options.seconds:
                return
    if losses:
        losses.close()


if __name__ == "__main__":
    main()
