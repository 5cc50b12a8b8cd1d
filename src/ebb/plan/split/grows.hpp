// What in a trace grows with the number of examples: read off two traces of one function, `a` for
// one number of them and `b` for another.
#pragma once

#include <cstdint>
#include <vector>

#include "ebb/trace/trace.hpp"

namespace ebb::plan {

// Whether a constant is made for each example, the same for all, however many there are.
bool grows(const Tensor& a, std::int64_t a_examples, const Tensor& b, std::int64_t b_examples);

// Whether `a` has a row, or several, for each example, and so has `b`.
bool grows(const Spec& a, std::int64_t a_examples, const Spec& b, std::int64_t b_examples);

// Whether a scalar is a multiple of the number of examples.
bool counts(const Tensor& a, std::int64_t a_examples, const Tensor& b, std::int64_t b_examples);

// Whether two ops of one type differ only in the first axis of a shape that they are told.
bool told_batch(const ops::AnyOp& a, std::int64_t a_examples, const ops::AnyOp& b,
                std::int64_t b_examples);

// What calls that make more bytes than they read make of constants alone, in their order. They are
// the same calls in every micro-batch; others, such as sums, go on from what those before made.
std::vector<trace::Id> made_of_constants(const trace::Trace& trace);

}  // namespace ebb::plan
