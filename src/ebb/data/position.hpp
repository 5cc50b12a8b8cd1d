// Where a walk over batches is, as a value: kept in a checkpoint, it lets a later walk go on there.
//
//   auto walk = data.walk(10);                              // epochs 0 to 9
//   while (const Batch* b = walk.next()) { step(*b); save(to_string(walk.position())); }
//   …
//   for (const Batch& b : data.epochs(10, data::Position::parse(saved))) step(b);
//
// The order of the rows depends on seed and epoch alone, so nobody has to walk to a position, and
// the batches from there on are those of a walk that was never interrupted, to the bit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ebb::data {

struct Position {
  std::int64_t epoch = 0;  // so many are done,
  std::int64_t batch = 0;  // and so many batches of the next one

  // The walk that it belongs to; any other refuses it and says in what they differ. A position made
  // by hand, whose batch_rows is 0, belongs to every walk.
  std::int64_t rows = 0;
  std::int64_t batch_rows = 0;
  bool drop_last = false;
  std::optional<std::uint64_t> seed = {};  // none: not shuffled
  std::uint64_t columns = 0;  // fingerprint of names, types, shapes, and which part of the rows

  bool operator==(const Position&) const = default;
  static Position parse(std::string_view text);  // what to_string gave; anything else is an Error
};

// "epoch=3 batch=17 rows=60000 batch_rows=512 drop_last=0 seed=1 columns=90ab12cd34ef5678"
std::string to_string(const Position& position);

// An Error that names the first setting in which they differ, where `position` is none of a walk
// that starts at `start` and has so many batches an epoch.
void check_fits(const Position& position, const Position& start, std::int64_t batches);

}  // namespace ebb::data
