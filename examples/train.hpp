// The loop of the eager examples.
#pragma once

#include "progress.hpp"

template <class Model, class LossOf>
void train_model(const char* name, Model& model, const ebb::Dataset& data, int epochs,
                 LossOf loss_of) {
  using namespace ebb;
  optim::AdamW adam(params(model), {.lr = 2e-3});
  adam.set_schedule(optim::warmup_cosine(2e-3, 20, epochs * data.batches()));
  Progress progress(name, data.batches(), epochs);
  for (const Batch& b : data.epochs(epochs)) {
    Tape tape;
    progress(adam.minimize(loss_of(b)));
  }
}
