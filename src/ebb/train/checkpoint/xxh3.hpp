// XXH3 of bytes that come in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ebb::train {

class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  std::uint64_t sum() const;  // of what was added so far
  void restart();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3(std::string_view text);
std::string digits(std::uint64_t sum);  // sixteen of them

}  // namespace ebb::train
