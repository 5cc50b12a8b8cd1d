#include "ebb/train/checkpoint/xxh3.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ebb::train {

struct Xxh3::State {
  XXH3_state_t state;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { restart(); }
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;

void Xxh3::restart() { XXH3_64bits_reset(&state_->state); }
void Xxh3::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->state, bytes.data(), bytes.size());
}
void Xxh3::add(std::string_view text) { add(std::as_bytes(std::span(text))); }
std::uint64_t Xxh3::sum() const { return XXH3_64bits_digest(&state_->state); }

std::uint64_t xxh3(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }
std::string digits(std::uint64_t sum) { return fmt::format("{:016x}", sum); }

}  // namespace ebb::train
