/* A compressed table of vectors as float32 numbers; `words/vector_table.py` says how it is stored. */
#include "common.h"

/* Rows first, ..., first + n_rows - 1 of the table, in place:
 *
 *     out[row] = (head[row], scales[row] * values[codes[row]]) * spread + centre
 *
 * values is (256, per_byte): the levels that a byte stands for. The codes of a row are n_bytes
 * bytes, of which the last may be used in part. */
void KERNEL(unpack)(const uint8_t *codes, const int8_t *head, const float *scales,
                    const float *values, const float *spread, const float *centre, Size n_rows,
                    Size n_head, Size n_bytes, Size per_byte, Size n_dims, float *out) {
  for (Size row = 0; row < n_rows; row++) {
    const uint8_t *row_codes = codes + row * n_bytes;
    const int8_t *row_head = head + row * n_head;
    float *row_out = out + row * n_dims;

    for (Size d = 0; d < n_head; d++) row_out[d] = (float)row_head[d];

    /* whole bytes, then the part of the last one that is used */
    float *tail = row_out + n_head;
    const Size n_tail = n_dims - n_head;
    const Size n_whole = n_tail / per_byte;
    for (Size byte = 0; byte < n_whole; byte++)
      memcpy(tail + byte * per_byte, values + row_codes[byte] * per_byte,
             (size_t)per_byte * sizeof(float));
    for (Size d = n_whole * per_byte; d < n_tail; d++)
      tail[d] = values[row_codes[n_whole] * per_byte + d - n_whole * per_byte];

    for (Size d = 0; d < n_tail; d++) tail[d] *= scales[row];
    for (Size d = 0; d < n_dims; d++) row_out[d] = row_out[d] * spread[d] + centre[d];
  }
}
