// How far two results of one step are apart, and how far they may be. A split of the batch adds up a weight's gradient
// in another order where the weight is used more than once for each example: what differs then is rounding.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ebb/tensor/variable.hpp"
#include "ebb/train/job.hpp"

namespace ebb::app {

// The same step with an optimizer that keeps its gradient, and leaves the weights as they are.
train::Config keeping_gradient(train::Config config);
std::vector<Variable> kept_gradient(const train::Job& job);

// Of an element, by the largest of its variable, or by a hundredth of the largest of all where that is more: the
// largest. The other one's bytes are in a file, as write_values has written them.
double difference(const std::vector<Variable>& ours, const std::string& path);
void write_values(const std::vector<Variable>& all, const std::string& path);

// What rounding may come to: 1e-4 of 32-bit gradients, where up to 3e-6 was seen on the templates of ebb init, and
// 0.03 of 16-bit ones, where 8e-3 was (a unit of bf16 is 4e-3). One example of a batch of thousands that is lost,
// counted twice or divided otherwise is more than the first.
double bound_of_difference(const train::Config& config);

// f(bytes, variable's number, variable) over all of them, wherever they are.
using Piece = std::function<void(std::span<const std::byte>, std::size_t, const Variable&)>;
void each_piece(const std::vector<Variable>& all, const Piece& f);

// For a test: the first of them is wrong by this share of itself.
void spoil(std::vector<Variable> all, double share);

}  // namespace ebb::app
