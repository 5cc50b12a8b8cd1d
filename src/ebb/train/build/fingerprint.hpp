// What a file or folder of data holds, in a line: to tell a run that goes on whether it is still the same.
//
//   fingerprint("digits.csv");     // "184230 bytes, xxh3 7c0e5b1d93aa41f2"
//   fingerprint("pictures");       // "60000 files, 48120334 bytes, xxh3 …"
//
// A file of up to 256 MiB is read whole; of a larger one its size, its two ends and 4,096 pieces spread over it, so
// that 100 GB take a moment. Of a folder all names and sizes, and its files likewise, from 1 MiB on by pieces. When
// it was written does not matter. A change of a few bytes in the middle of a larger file may go unseen.
#pragma once

#include <string>

namespace ebb::train {

std::string fingerprint(const std::string& path);

}  // namespace ebb::train
