// For those who save and load parts of a run: the variables that they come to, each under a name of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/io/array/safetensors.hpp"
#include "ebb/io/array/variable_file.hpp"
#include "ebb/ops/random.hpp"
#include "ebb/optim/save.hpp"

namespace ebb::optim {

// A name that an earlier part has already is told apart by the number of its part; a variable that an
// earlier part has already is left out.
std::vector<NamedVariable> named(Parts parts);

// Where random draws of this thread stand, as a variable that is saved and loaded with the others.
inline constexpr char kRandom[] = "ebb.random";
NamedVariable random_draws();
random::State draws_in(const Variable& draws);  // as it is now, but for seed, step and draw

// Which of the wanted takes each tensor of a file, or kNobody. They are there, with these specs, or a
// FileError says what is not.
inline constexpr std::size_t kNobody = ~std::size_t{0};
std::vector<std::size_t> takers(const std::string& path, std::span<const StoredTensor> found,
                                std::span<const NamedVariable> wanted);

void refuse_in_trace(const char* what);
[[noreturn]] void refuse(const std::string& path, const std::string& why);  // "cannot load …"

}  // namespace ebb::optim
