#include "ebb/data/position.hpp"

#include <fmt/format.h>

#include <charconv>

#include "ebb/base/error.hpp"

namespace ebb::data {
namespace {

// Takes "name=" and a number off the front of `text`; false where something else stands there.
template <class T>
bool take_number(std::string_view& text, std::string_view name, T& to, int base = 10) {
  if (!text.starts_with(name) || !text.substr(name.size()).starts_with('=')) return false;
  text.remove_prefix(name.size() + 1);
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), to, base);
  if (fault != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return text.empty() || (text.remove_prefix(text[0] == ' '), true);
}

std::string shuffled(const std::optional<std::uint64_t>& seed) {
  return seed ? fmt::format("shuffle({})", *seed) : "no shuffle";
}

[[noreturn]] void refuse(const Position& position, const std::string& why) {
  throw Error(fmt::format(
      "position: epoch {}, batch {} is of another walk: {}; go on with the data and the settings "
      "that it was taken from, or start anew",
      position.epoch, position.batch, why));
}

}  // namespace

std::string to_string(const Position& p) {
  return fmt::format("epoch={} batch={} rows={} batch_rows={} drop_last={} seed={} columns={:016x}",
                     p.epoch, p.batch, p.rows, p.batch_rows, p.drop_last ? 1 : 0,
                     p.seed ? fmt::format("{}", *p.seed) : "none", p.columns);
}

Position Position::parse(std::string_view text) {
  constexpr std::string_view kUnshuffled = "seed=none ";
  Position p;
  int drop_last = 0;
  std::string_view left = text;
  bool good = take_number(left, "epoch", p.epoch) && take_number(left, "batch", p.batch) &&
              take_number(left, "rows", p.rows) && take_number(left, "batch_rows", p.batch_rows) &&
              take_number(left, "drop_last", drop_last);
  p.drop_last = drop_last == 1;
  if (good && left.starts_with(kUnshuffled)) {
    left.remove_prefix(kUnshuffled.size());
  } else {
    p.seed = 0;
    good = good && take_number(left, "seed", *p.seed);
  }
  good = good && take_number(left, "columns", p.columns, 16);
  // Written again it is the same text: no second way to write a position, and nothing left over.
  if (!good || to_string(p) != text || p.epoch < 0 || p.batch < 0 || p.rows < 0 || p.batch_rows < 0)
    throw Error(
        fmt::format("position: \"{}\" is none; expected the line that to_string gives, as \"{}\"",
                    text.substr(0, 200), to_string(Position{})));
  return p;
}

void check_fits(const Position& position, const Position& start, std::int64_t batches) {
  if (position.batch_rows != 0) {
    if (position.rows != start.rows)
      refuse(position, fmt::format("it has {} rows, this one {}", position.rows, start.rows));
    if (position.batch_rows != start.batch_rows)
      refuse(position, fmt::format("its batches have {} rows, those of this one {}",
                                   position.batch_rows, start.batch_rows));
    if (position.drop_last != start.drop_last)
      refuse(position, fmt::format("it {} a last batch that is not full, this one {}",
                                   position.drop_last ? "drops" : "keeps",
                                   start.drop_last ? "drops it" : "keeps it"));
    if (position.seed != start.seed)
      refuse(position,
             fmt::format("it has {}, this one {}", shuffled(position.seed), shuffled(start.seed)));
    if (position.columns != start.columns)
      refuse(position,
             "its columns have other names, types or shapes, or it has another part of the rows");
  }
  if (position.epoch < 0 || position.batch < 0)
    throw Error(fmt::format("position: epoch {}, batch {}; both are counted from 0", position.epoch,
                            position.batch));
  if (position.batch != 0 && position.batch >= batches)
    throw Error(fmt::format("position: batch {} of an epoch that has {}; they are counted from 0",
                            position.batch, batches));
}

}  // namespace ebb::data
