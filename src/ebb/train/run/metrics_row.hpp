// One row of a run's metrics: where the run stood, and named values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ebb/train/run/clock.hpp"

namespace ebb::train {

struct MetricsRow {
  std::int64_t step = 0;         // steps done since the beginning of the training
  double epoch = 0;              // passes over the data, with the part of the present one
  double time = unix_seconds();  // when
};

struct MetricValue {
  std::string_view name;  // "loss", "eval/accuracy", "lr"; at most 200 bytes
  double value = 0;
};

// That this is a row every format can hold: an Error names what is not.
void check_row(const MetricsRow& row, std::span<const MetricValue> values);

// The number that reads back as the same: whole ones without a point, those that are exact in 32
// bits (most losses) by their few digits. Only for finite values.
void add_number(std::string& to, double value);

}  // namespace ebb::train
