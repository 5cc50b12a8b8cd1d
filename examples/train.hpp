// The loop of the examples: one pass after the other, with a line of progress that is live on a
// terminal and comes once a pass elsewhere.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ebb/ebb.hpp>

template <class Model, class LossOf>
void train(const char* name, Model& model, const ebb::Dataset& data, int epochs, LossOf loss_of) {
  using namespace ebb;
  optim::AdamW adam(params(model), {.lr = 2e-3});
  adam.set_schedule(optim::warmup_cosine(2e-3, 20, epochs * data.batches()));
  const bool live = isatty(STDOUT_FILENO);
  const auto start = std::chrono::steady_clock::now();
  double sum = 0, count = 0;
  for (const Batch& b : data.epochs(epochs)) {
    Tape tape;
    const Loss loss = adam.minimize(loss_of(b));
    sum += loss.sum.item(), count += loss.count.item();
    const bool last = adam.steps() % data.batches() == 0;
    if (!last && !(live && adam.steps() % 10 == 0)) continue;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::printf("%s%s  epoch %2ld/%d  loss %.4f  %5.0f steps/s%s", live ? "\r" : "", name,
                static_cast<long>((adam.steps() - 1) / data.batches() + 1), epochs, sum / count,
                static_cast<double>(adam.steps()) / passed.count(), live && !last ? "" : "\n");
    std::fflush(stdout);
    if (last) sum = count = 0;
  }
}
