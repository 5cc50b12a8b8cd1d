// A model of the zoo that the ranks of a world train together: the same for any number of them.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ebb/base/sha256.hpp"
#include "ebb/ebb.hpp"
#include "tests/programs/zoo.hpp"

namespace ebb::test {

struct SharedTraining {
  SharedTraining(const std::string& kind, dist::World& world, std::int64_t rows)
      : subject(programs::make(kind, 1)),
        adam(subject.params, {.lr = 1e-3}),
        own(programs::data_for(kind, rows, 3).shuffle(1).batch(20).part(world)) {
    adam.clip_norm(0.5);
    random::seed(7);
    options.world = &world;
    options.strategy = dist::mirrored();
    options.bad_loss = BadLoss::stop;
  }

  auto compiled() {
    return compile(own.spec(), options,
                   [this](const Batch& b) { return adam.minimize(subject.loss(b)); });
  }

  // Of weights and state, read in small pieces: a budget may have no room for more.
  std::string hash() const {
    std::vector<Variable> all = subject.variables;
    for (const Variable& v : adam.state()) all.push_back(v);
    Sha256 sha;
    std::array<std::byte, 4096> piece;
    for (const Variable& v : all)
      for (std::uint64_t at = 0; at < v.spec().bytes(); at += piece.size()) {
        const std::span part(piece.data(),
                             std::min<std::uint64_t>(piece.size(), v.spec().bytes() - at));
        v.read(part, at);
        sha.add(part);
      }
    return sha.hex();
  }

  programs::Subject subject;
  optim::AdamW adam;
  Dataset own;  // the rank's part
  CompileOptions options;
};

}  // namespace ebb::test
