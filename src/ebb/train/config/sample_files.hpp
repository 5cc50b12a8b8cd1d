// Data that templates bring along: made here, so that it need not be shipped twice.
#pragma once

#include <cstdint>
#include <string>

namespace ebb::train {

// Little tales in plain English, each a paragraph: who met whom, where, and what came of it. Made from
// a grammar in which later sentences depend on earlier ones, so that there is something to learn.
std::string tales(std::size_t bytes, std::uint64_t seed);

// Houses with seven columns, two of them categories; the price depends on all, with some noise.
std::string houses_csv(std::int64_t rows, std::uint64_t seed);

}  // namespace ebb::train
