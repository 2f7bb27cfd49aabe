// GLAIM over its own closed form on a CPU, one window at a time, so that it stays in a core's L2 cache.
//
// The formulas are those of training/network (model.py, cascade.py, own_form.py) and training/serve/served.py, in the
// order of the calls. kernel.py packs the weights, folds what does not depend on the window, and compares the answers
// with the TorchScript file before it takes them. Cells are [T][C][D], channels last; sizes come at run time.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int W = 16, ROWS = 8;  // floats of a vector; cells whose products are accumulated in registers
#elif defined(__AVX__)
constexpr int W = 8, ROWS = 4;
#else
constexpr int W = 4, ROWS = 4;
#endif
typedef float V __attribute__((vector_size(W * 4)));
typedef int32_t I __attribute__((vector_size(W * 4)));
typedef float U __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef float Q __attribute__((vector_size(16)));
typedef double P __attribute__((vector_size(16)));
typedef double E __attribute__((vector_size(W * 4)));
typedef double EU __attribute__((vector_size(W * 4), aligned(8), may_alias));
constexpr int HALF = W / 2;  // doubles of a vector

inline V load(const float* at) { return *reinterpret_cast<const U*>(at); }
inline void store(float* at, V value) { *reinterpret_cast<U*>(at) = value; }
inline V all(float value) { return value - V{}; }
inline E loadd(const double* at) { return *reinterpret_cast<const EU*>(at); }
inline float total(V value) {
    Q part[W / 4];
    std::memcpy(part, &value, sizeof value);
    for (int i = 1; i < W / 4; i++) part[0] += part[i];
    return (part[0][0] + part[0][1]) + (part[0][2] + part[0][3]);
}
inline double totald(E value) {
    P part[HALF / 2];
    std::memcpy(part, &value, sizeof value);
    for (int i = 1; i < HALF / 2; i++) part[0] += part[i];
    return part[0][0] + part[0][1];
}
inline double dot(const double* a, const double* b, int n) {
    E sum{};
    int k = 0;
    for (; k + HALF <= n; k += HALF) sum += loadd(a + k) * loadd(b + k);
    double rest = totald(sum);
    for (; k < n; k++) rest += a[k] * b[k];
    return rest;
}
inline V larger(V a, V b) { return a > b ? a : b; }
inline V smaller(V a, V b) { return a < b ? a : b; }

inline V exponential(V x) {  // 2e-7 relative; of NaN not defined
    x = smaller(larger(x, all(-87.0f)), all(88.0f));
    const V magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    V n = (x * 1.44269504f + magic) - magic;
    V r = x - n * 0.693359375f + n * 2.12194440e-4f;
    V p = ((((1.9875691500e-4f * r + 1.3981999507e-3f) * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r
           + 1.6666665459e-1f) * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * reinterpret_cast<V>((__builtin_convertvector(n, I) + 127) << 23);
}
inline V sigmoid(V x) { return 1.0f / (1.0f + exponential(-x)); }
inline V tangent(V x) { return 1.0f - 2.0f / (exponential(x + x) + 1.0f); }
inline V gelu(V x) {  // by erf as a rational function (Eigen's coefficients), 3e-7
    V y = smaller(larger(x * 0.70710678f, all(-4.0f)), all(4.0f)), s = y * y;
    V p = ((((((-2.72614225801306e-10f * s + 2.77068142495902e-08f) * s - 2.10102402082508e-06f) * s
              - 5.69250639462346e-05f) * s - 7.34990630326855e-04f) * s - 2.95459980854025e-03f) * s
           - 1.60960333262415e-02f) * y;
    V q = (((-1.45660718464996e-05f * s - 2.13374055278905e-04f) * s - 1.68282697438203e-03f) * s
           - 7.37332916720468e-03f) * s - 1.42647390514189e-02f;
    return 0.5f * x * (1.0f + p / q);
}

// Products of N rows x [N][k] with weights w [k][m] and bias b [m]; put(row, first of W columns, values).
template <int N, int COLUMNS, class Put>
inline void tile(const float* x, int k, const float* w, const float* b, int m, int from, Put& put) {
    V sum[N][COLUMNS];
    for (int j = 0; j < COLUMNS; j++)
        for (int r = 0; r < N; r++) sum[r][j] = load(b + from + j * W);
    for (int i = 0; i < k; i++) {
        V weight[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) weight[j] = load(w + i * m + from + j * W);
        for (int r = 0; r < N; r++)
            for (int j = 0; j < COLUMNS; j++) sum[r][j] += x[r * k + i] * weight[j];
    }
    for (int r = 0; r < N; r++)
        for (int j = 0; j < COLUMNS; j++) put(r, from + j * W, sum[r][j]);
}
template <int N, class Put>
inline void product(const float* x, int k, const float* w, const float* b, int m, Put put) {
    int from = 0;
    for (; from + 2 * W <= m; from += 2 * W) tile<N, 2>(x, k, w, b, m, from, put);
    for (; from < m; from += W) tile<N, 1>(x, k, w, b, m, from, put);
}
template <class Put>
inline void linear(const float* x, int rows, int k, const float* w, const float* b, int m, Put put) {
    int row = 0;
    for (; row + ROWS <= rows; row += ROWS)
        product<ROWS>(x + row * k, k, w, b, m, [&](int r, int j, V v) { put(row + r, j, v); });
    for (; row < rows; row++) product<1>(x + row * k, k, w, b, m, [&](int, int j, V v) { put(row, j, v); });
}

struct Encoder { const float *qkv, *qkv_b, *out, *out_b, *gain, *shift, *in, *in_b, *back, *back_b, *gain2, *shift2; };
struct Layer {
    const float *edge, *taps, *in, *in_b, *back, *back_b, *mixing;  // StaGlo
    const float *added, *scores, *pool, *identity;                  // attention over time
    Encoder relation;
    const float *change, *change_b, *scale, *scale_b, *shift, *shift_b, *first, *second, *zero;
    Encoder refiner;
    const float *gate_u, *gate_c, *gate_b, *gate_out, *gate_out_b;
};
struct Head { const float *value, *value_b, *gate, *gate_b, *out; float bias; };

struct Sizes { int sensors, window, d, layers, ffn, heads, taps, recon, scales, router, emitted; };

struct Network : Sizes {
    std::vector<float> numbers;
    std::vector<double> doubles;
    float eps, temperature, norm;
    const float *scalars, *mean, *std, *share, *widths, *temporal, *temporal_b, *pointwise, *pointwise_b, *embed, *between;
    std::vector<Layer> layer;
    Head head[2];                  // choice, correction
    const double *precision, *covariance, *unit, *levels, *zero;
    const double* range;           // of levels that tell of others [2][C], and of those that are told [2][C]
};

struct Work {  // of one call: threads share only the network
    std::unique_ptr<float[]> floats;
    std::unique_ptr<double[]> doubles;
    size_t used = 0, usedd = 0;
    void reserve(size_t count, size_t countd) {
        floats.reset(new float[count]);  // not cleared
        doubles.reset(new double[countd]);
    }
    float* take(size_t count) {
        count = (count + 15) / 16 * 16;
        float* at = floats.get() + used;
        used += count;
        return at;
    }
    double* taked(size_t count) {
        double* at = doubles.get() + usedd;
        usedd += count;
        return at;
    }
};

// Cholesky of a [n][n] in place (its lower half), then a x = b in place.
void solve(double* a, int n, double* b) {
    constexpr int B = 4;
    for (int j0 = 0; j0 < n; j0 += B) {
        int nj = n - j0 < B ? n - j0 : B;
        for (int i0 = j0; i0 < n; i0 += B) {
            int ni = n - i0 < B ? n - i0 : B;
            double part[B][B];
            if (ni == B && nj == B) {
                E sum[B][B] = {};
                int k = 0;
                for (; k + HALF <= j0; k += HALF) {
                    E left[B], right[B];
                    for (int r = 0; r < B; r++) left[r] = loadd(a + size_t(i0 + r) * n + k);
                    for (int r = 0; r < B; r++) right[r] = loadd(a + size_t(j0 + r) * n + k);
                    for (int r = 0; r < B; r++)
                        for (int c = 0; c < B; c++) sum[r][c] += left[r] * right[c];
                }
                for (int r = 0; r < B; r++)
                    for (int c = 0; c < B; c++) {
                        part[r][c] = totald(sum[r][c]);
                        for (int l = k; l < j0; l++) part[r][c] += a[size_t(i0 + r) * n + l] * a[size_t(j0 + c) * n + l];
                    }
            } else {
                for (int r = 0; r < ni; r++)
                    for (int c = 0; c < nj; c++)
                        part[r][c] = dot(a + size_t(i0 + r) * n, a + size_t(j0 + c) * n, j0);
            }
            for (int r = 0; r < ni; r++) {
                double* row = a + size_t(i0 + r) * n + j0;
                for (int c = 0; c < nj; c++) {
                    if (i0 == j0 && c > r) break;
                    const double* other = a + size_t(j0 + c) * n + j0;
                    double value = row[c] - part[r][c];
                    for (int l = 0; l < c; l++) value -= row[l] * other[l];
                    row[c] = i0 == j0 && c == r ? std::sqrt(value) : value / other[c];
                }
            }
        }
    }
    for (int i = 0; i < n; i++) b[i] = (b[i] - dot(a + size_t(i) * n, b, i)) / a[size_t(i) * n + i];
    for (int i = n - 1; i >= 0; i--) {
        double value = b[i] /= a[size_t(i) * n + i];
        for (int l = 0; l < i; l++) b[l] -= a[size_t(i) * n + l] * value;
    }
}

// OwnForm: fills x [C][T], standardised, where not seen; moved rows say nothing of silent sensors.
void fill(const Network& n, float* x, const uint8_t* seen, const uint8_t* moved, Work& work) {
    const int C = n.sensors, T = n.window, D = C * T;
    double *level = work.taked(C), *known = work.taked(D), *away = work.taked(C), *small = work.taked(C * C);
    double *right = work.taked(D), *system = work.doubles.get() + work.usedd;
    std::vector<int> holes, cells, usable;
    for (int c = 0; c < C; c++) {
        double sum = 0;
        int count = 0;
        for (int t = 0; t < T; t++)
            if (seen[c * T + t]) sum += double(x[c * T + t]) / n.unit[c], count++;
        level[c] = count ? sum / count : 0;
        if (count && level[c] >= n.range[c] && level[c] <= n.range[C + c] && !moved[c]) usable.push_back(c);
        for (int t = 0; t < T; t++) (seen[c * T + t] ? cells : holes).push_back(c * T + t);
    }
    const int u = int(usable.size());
    for (int i = 0; i < u; i++) {
        away[i] = level[usable[i]] - n.zero[usable[i]];
        for (int j = 0; j < u; j++) small[i * u + j] = n.levels[usable[i] * C + usable[j]];
    }
    solve(small, u, away);
    for (int c = 0; c < C; c++) {
        bool silent = true;
        for (int t = 0; t < T; t++) silent = silent && !seen[c * T + t];
        if (!silent) continue;
        double expected = n.zero[c];
        for (int i = 0; i < u; i++) expected += away[i] * n.levels[usable[i] * C + c];
        level[c] = std::fmin(std::fmax(expected, n.range[2 * C + c]), n.range[3 * C + c]);
    }
    for (int i = 0; i < D; i++) known[i] = seen[i] ? double(x[i]) / n.unit[i / T] - level[i / T] : 0;
    const bool sparse = cells.size() < holes.size();
    const std::vector<int>& chosen = sparse ? cells : holes;
    const double* matrix = sparse ? n.covariance : n.precision;
    const int m = int(chosen.size());
    for (int i = 0; i < m; i++) {
        const double* row = matrix + size_t(chosen[i]) * D;
        for (int j = 0; j <= i; j++) system[size_t(i) * m + j] = row[chosen[j]];
        right[i] = sparse ? known[chosen[i]] : -dot(row, known, D);
    }
    solve(system, m, right);
    if (sparse) {  // K[:, o] times the solution
        double* spread = system;
        std::memset(spread, 0, D * sizeof(double));
        for (int i = 0; i < m; i++) {
            const double* row = matrix + size_t(chosen[i]) * D;
            for (int k = 0; k < D; k++) spread[k] += right[i] * row[k];
        }
        for (int cell : holes) x[cell] = float((spread[cell] + level[cell / T]) * n.unit[cell / T]);
    } else {
        for (int i = 0; i < m; i++) x[holes[i]] = float((right[i] + level[holes[i] / T]) * n.unit[holes[i] / T]);
    }
}

inline void normalised(const float* x, int d, float eps, float* y) {
    V sum{}, squares{};
    for (int i = 0; i < d; i += W) sum += load(x + i);
    const float mean = total(sum) / d;
    for (int i = 0; i < d; i += W) {
        V away = load(x + i) - mean;
        squares += away * away;
    }
    const float scale = 1.0f / std::sqrt(total(squares) / d + eps);
    for (int i = 0; i < d; i += W) store(y + i, (load(x + i) - mean) * scale);
}

// x += FFN(x normalised) where `post` is absent, else x = norm(x + FFN(x)).
void feed_forward(const Network& n, float* x, int rows, const float* in, const float* in_b, const float* back,
                  const float* back_b, const float* gain, const float* shift, float* wide, float* plain) {
    const int d = n.d, f = n.ffn;
    for (int from = 0; from < rows; from += ROWS) {
        const int count = rows - from < ROWS ? rows - from : ROWS;
        float* at = x + size_t(from) * d;
        const float* source = at;
        if (!gain) {
            for (int r = 0; r < count; r++) normalised(at + r * d, d, n.norm, plain + r * d);
            source = plain;
        }
        linear(source, count, d, in, in_b, f, [&](int r, int j, V v) { store(wide + r * f + j, gelu(v)); });
        linear(wide, count, f, back, back_b, d, [&](int r, int j, V v) { store(at + r * d + j, load(at + r * d + j) + v); });
        if (gain)
            for (int r = 0; r < count; r++) {
                normalised(at + r * d, d, n.norm, at + r * d);
                for (int j = 0; j < d; j += W)
                    store(at + r * d + j, load(at + r * d + j) * load(gain + j) + load(shift + j));
            }
    }
}

// EncoderLayer over the sensors of up to W steps at a time, x [steps * C][D] in place; a lane is a step.
void encode(const Network& n, const Encoder& e, float* x, int steps, Work& work) {
    const int C = n.sensors, d = n.d, rows = steps * C, size = d / n.heads;
    const size_t mark = work.used;
    float *turned = work.take(size_t(C) * 3 * d * W), *mixed = work.take(size_t(rows) * d);
    float *wide = work.take(size_t(ROWS) * n.ffn), *weights = work.take(size_t(C) * W);
    if (steps < W) std::memset(turned, 0, sizeof(float) * C * 3 * d * W);
    linear(x, rows, d, e.qkv, e.qkv_b, 3 * d, [&](int r, int j, V v) {
        float* at = turned + (size_t(r % C) * 3 * d + j) * W + r / C;
        for (int i = 0; i < W; i++) at[i * W] = v[i];
    });
    for (int h = 0; h < n.heads; h++)
        for (int one = 0; one < C; one++) {
            const float* query = turned + (size_t(one) * 3 * d + h * size) * W;
            V most = all(-3e38f), sum{};
            for (int other = 0; other < C; other++) {
                const float* key = turned + (size_t(other) * 3 * d + d + h * size) * W;
                V score{};
                for (int i = 0; i < size; i++) score += load(query + i * W) * load(key + i * W);
                store(weights + other * W, score);
                most = larger(most, score);
            }
            for (int other = 0; other < C; other++) {
                V weight = exponential(load(weights + other * W) - most);
                store(weights + other * W, weight);
                sum += weight;
            }
            const V scale = 1.0f / sum;
            for (int i = 0; i < size; i++) {
                V value{};
                for (int other = 0; other < C; other++)
                    value += load(weights + other * W) * load(turned + (size_t(other) * 3 * d + 2 * d + h * size + i) * W);
                value *= scale;
                for (int lane = 0; lane < steps; lane++) mixed[(size_t(lane) * C + one) * d + h * size + i] = value[lane];
            }
        }
    linear(mixed, rows, d, e.out, e.out_b, d, [&](int r, int j, V v) {
        store(x + size_t(r) * d + j, load(x + size_t(r) * d + j) + v);
    });
    for (int r = 0; r < rows; r++) {
        float* at = x + size_t(r) * d;
        normalised(at, d, n.norm, at);
        for (int j = 0; j < d; j += W) store(at + j, load(at + j) * load(e.gain + j) + load(e.shift + j));
    }
    feed_forward(n, x, rows, e.in, e.in_b, e.back, e.back_b, e.gain2, e.shift2, wide, nullptr);
    work.used = mark;
}

// StaGlo of all steps of hidden [T][C][D], in place.
void global(const Network& n, const Layer& l, float* hidden, Work& work) {
    const int C = n.sensors, T = n.window, d = n.d, pad = n.taps / 2, cells = T * C;
    const size_t mark = work.used;
    float *plain = work.take(size_t(cells) * d), *wide = work.take(size_t(ROWS) * n.ffn);
    float *rows = work.take(size_t(ROWS) * d);
    for (int i = 0; i < cells; i++) normalised(hidden + size_t(i) * d, d, n.norm, plain + size_t(i) * d);
    constexpr int STEPS = 8;
    for (int c = 0; c < C; c++)
        for (int j = 0; j < d; j += W)
            for (int t0 = 0; t0 < T; t0 += STEPS) {
                V sum[STEPS] = {};
                const int first = t0 - pad < 0 ? 0 : t0 - pad;
                const int end = t0 + STEPS + pad > T ? T : t0 + STEPS + pad;
                for (int s = first; s < end; s++) {
                    const V x = load(plain + (size_t(s) * C + c) * d + j);
                    const float* tap = l.taps + (ptrdiff_t(s - t0 + pad) + STEPS - 1) * d + j;  // zeros beyond both ends
                    for (int r = 0; r < STEPS; r++) sum[r] += x * load(tap - r * d);
                }
                for (int r = 0; r < STEPS && t0 + r < T; r++) {
                    float* at = hidden + (size_t(t0 + r) * C + c) * d + j;
                    store(at, load(at) + sum[r] + load(l.edge + (t0 + r) * d + j));
                }
            }
    feed_forward(n, hidden, cells, l.in, l.in_b, l.back, l.back_b, nullptr, nullptr, wide, rows);
    for (int t = 0; t < T; t++) {
        float* at = hidden + size_t(t) * C * d;
        for (int c = 0; c < C; c++)
            for (int j = 0; j < d; j += W) {
                V sum{};
                for (int other = 0; other < C; other++) sum += load(l.mixing + (size_t(c) * C + other) * d + j) * load(at + other * d + j);
                store(plain + c * d + j, sum);
            }
        std::memcpy(at, plain, sizeof(float) * C * d);
    }
    work.used = mark;
}

// SaCoRef: the context of all steps, then the refinement of those in `steps`, in place.
void refine(const Network& n, const Layer& l, float* hidden, const uint8_t* seen, const std::vector<int>& steps, Work& work) {
    const int C = n.sensors, T = n.window, d = n.d, H = n.heads;
    const size_t mark = work.used;
    float *weights = work.take(size_t(H) * T), *pooled = work.take(size_t(C) * H * d), *context = work.take(size_t(C) * d);
    float *scale = work.take(size_t(C) * d), *shift = work.take(size_t(C) * d), *gate_c = work.take(size_t(C) * d);
    for (int c = 0; c < C; c++) {
        for (int t = 0; t < T; t++) {
            const float *u = hidden + (size_t(t) * C + c) * d, *more = l.added + (size_t(seen[c * T + t]) * T + t) * d;
            for (int h = 0; h < H; h++) {
                V sum{};
                for (int j = 0; j < d; j += W) sum += (load(u + j) + load(more + j)) * load(l.scores + h * d + j);
                weights[h * T + t] = total(sum);
            }
        }
        for (int h = 0; h < H; h++) {
            float* w = weights + h * T;
            float most = w[0], sum = 0;
            for (int t = 1; t < T; t++) most = w[t] > most ? w[t] : most;
            for (int t = 0; t < T; t++) sum += w[t] = std::exp(w[t] - most);
            for (int j = 0; j < d; j += W) {
                V value{};
                for (int t = 0; t < T; t++)
                    value += w[t] * (load(hidden + (size_t(t) * C + c) * d + j) + load(l.added + (size_t(seen[c * T + t]) * T + t) * d + j));
                store(pooled + (size_t(c) * H + h) * d + j, value / sum);
            }
        }
    }
    linear(pooled, C, H * d, l.pool, l.zero, d, [&](int r, int j, V v) { store(context + r * d + j, v + load(l.identity + r * d + j)); });
    encode(n, l.relation, context, 1, work);
    linear(context, C, d, l.change, l.change_b, d, [&](int r, int j, V v) { store(gate_c + r * d + j, gelu(v)); });
    linear(gate_c, C, d, l.scale, l.scale_b, d, [&](int r, int j, V v) { store(scale + r * d + j, tangent(v)); });
    linear(gate_c, C, d, l.shift, l.shift_b, d, [&](int r, int j, V v) { store(shift + r * d + j, v); });
    linear(context, C, d, l.gate_c, l.gate_b, d, [&](int r, int j, V v) { store(gate_c + r * d + j, v); });
    const size_t most = size_t(W) * C * d;
    float *u = work.take(most), *inner = work.take(most), *changed = work.take(most), *refined = work.take(most);
    for (size_t from = 0; from < steps.size(); from += W) {
        const int count = steps.size() - from < W ? int(steps.size() - from) : W, rows = count * C;
        for (int i = 0; i < count; i++)
            std::memcpy(u + size_t(i) * C * d, hidden + size_t(steps[from + i]) * C * d, sizeof(float) * C * d);
        linear(u, rows, d, l.first, l.zero, d, [&](int r, int j, V v) { store(inner + size_t(r) * d + j, v * load(scale + r % C * d + j)); });
        linear(inner, rows, d, l.second, l.zero, d, [&](int r, int j, V v) {
            v += load(u + size_t(r) * d + j) + load(shift + r % C * d + j);
            store(changed + size_t(r) * d + j, v);
            store(refined + size_t(r) * d + j, v);
        });
        encode(n, l.refiner, refined, count, work);
        linear(u, rows, d, l.gate_u, l.zero, d, [&](int r, int j, V v) { store(inner + size_t(r) * d + j, gelu(v + load(gate_c + r % C * d + j))); });
        linear(inner, rows, d, l.gate_out, l.gate_out_b, d, [&](int r, int j, V v) {
            const size_t at = size_t(r) * d + j;
            store(hidden + size_t(steps[from + r / C]) * C * d + r % C * d + j, load(u + at) + sigmoid(v) * (load(refined + at) - load(changed + at)));
        });
    }
    work.used = mark;
}

// PriEmb's prior of the missing cells of a row: x [T], normalised where seen; fills prior [T].
void prior_of(const Network& n, const float* x, const uint8_t* seen, float* prior, Work& work) {
    const int T = n.window, K = n.scales, channels = K + 4, R = n.router;
    const size_t mark = work.used;
    float *evidence = work.take(size_t(T) * channels), *smooth = work.take(size_t(T) * K), *hidden = work.take(R);
    std::vector<int> left(T), right(T), counts(T + 1);
    std::vector<double> sums(T + 1);
    std::vector<uint8_t> made(T);
    float most = 0;
    for (int k = 0; k < K; k++) most = std::fmax(most, n.widths[k]);
    for (int t = 0, last = -1; t < T; t++) {
        left[t] = last = seen[t] ? t : last;
        sums[t + 1] = sums[t] + (seen[t] ? double(x[t]) : 0.0);
        counts[t + 1] = counts[t] + seen[t];
    }
    for (int t = T - 1, next = T; t >= 0; t--) right[t] = next = seen[t] ? t : next;
    auto make = [&](int t) {
        if (made[t]) return;
        made[t] = 1;
        const bool before = left[t] >= 0, after = right[t] < T;
        const float to_left = float(t - left[t]), to_right = float(right[t] - t);
        float weight = before ? (after ? to_left / std::fmax(to_left + to_right, 1.0f) : 0.0f) : 1.0f;
        float* at = evidence + size_t(t) * channels;
        at[0] = (before ? x[left[t]] * (1.0f - weight) : 0.0f) + (after ? x[right[t]] * weight : 0.0f);
        at[1] = seen[t];
        at[2] = before ? std::fmin(to_left / most, 1.0f) : 1.0f;
        at[3] = after ? std::fmin(to_right / most, 1.0f) : 1.0f;
        for (int k = 0; k < K; k++) {
            const int half = int(n.widths[k]) / 2, from = t - half < 0 ? 0 : t - half, end = t + half + 1 > T ? T : t + half + 1;
            const int count = counts[end] - counts[from];
            smooth[t * K + k] = count ? float((sums[end] - sums[from]) / count) : 0.0f;
            at[4 + k] = count / n.widths[k];
        }
    };
    for (int t = 0; t < T; t++) {
        if (seen[t]) {
            prior[t] = x[t];
            continue;
        }
        const int from = t ? t - 1 : 0, end = t + 2 > T ? T : t + 2;
        for (int s = from; s < end; s++) make(s);
        for (int j = 0; j < R; j += W) {
            V sum = load(n.temporal_b + j);
            for (int s = from; s < end; s++)
                for (int i = 0; i < channels; i++)
                    sum += evidence[size_t(s) * channels + i] * load(n.temporal + (size_t(s - t + 1) * channels + i) * R + j);
            store(hidden + j, gelu(sum));
        }
        float best = -INFINITY, mass = 0, value = 0;
        float scores[64];
        for (int k = 0; k <= K; k++) {
            V sum{};
            for (int j = 0; j < R; j += W) sum += load(hidden + j) * load(n.pointwise + k * R + j);
            scores[k] = (total(sum) + n.pointwise_b[k]) / n.temperature;
            best = std::fmax(best, scores[k]);
        }
        for (int k = 0; k <= K; k++) {
            const float weight = std::exp(scores[k] - best);
            mass += weight;
            value += weight * (k ? smooth[t * K + k - 1] : evidence[size_t(t) * channels]);
        }
        prior[t] = value / mass;
    }
    work.used = mark;
}

// A window: values [C][T] in sensor units, observed [C][T] -> out [C][emitted].
void window(const Network& n, const float* values, const uint8_t* observed, float* out, Work& work) {
    const int C = n.sensors, T = n.window, d = n.d, S = n.emitted, first = T - S;
    work.used = work.usedd = 0;
    std::vector<uint8_t> seen(C * T), moved(C), due(T);
    std::vector<float> level(C), mean(C), deviation(C);
    float *x = work.take(size_t(C) * T), *form = work.take(size_t(C) * T), *prior = work.take(size_t(C) * T);
    float *hidden = work.take(size_t(C) * T * d), *plain = work.take(size_t(ROWS) * d), *inner = work.take(size_t(ROWS) * n.recon);
    std::vector<int> steps, every(T);
    bool asked = false;
    for (int c = 0; c < C; c++) {
        const float* row = values + c * T;
        double sum = 0;
        int count = 0, newest = 0;
        for (int t = 0; t < T; t++) {
            const bool is = observed[c * T + t] && std::isfinite(row[t]);
            seen[c * T + t] = is;
            if (is) sum += row[t], count++, newest = t;
            else if (t >= first) due[t] = asked = true;
            if (t >= first) out[c * S + t - first] = row[t];
        }
        moved[c] = count && row[newest] == 0;
        level[c] = moved[c] ? float(sum / count) : n.mean[c];
        for (int t = 0; t < T; t++) x[c * T + t] = seen[c * T + t] ? (row[t] - level[c]) / n.std[c] : 0.0f;
    }
    if (!asked) return;
    fill(n, x, seen.data(), moved.data(), work);
    for (int c = 0; c < C; c++) {
        float *row = x + c * T, *filled = form + c * T, *guess = prior + c * T;
        const uint8_t* is = seen.data() + c * T;
        double sum = 0, squares = 0;
        int count = 0;
        for (int t = 0; t < T; t++)
            if (is[t]) sum += row[t], count++;
        mean[c] = count ? float(sum / count) : 0.0f;
        for (int t = 0; t < T; t++)
            if (is[t]) squares += double(row[t] - mean[c]) * (row[t] - mean[c]);
        deviation[c] = count ? std::sqrt(float(squares / count) + n.eps) : 1.0f;
        for (int t = 0; t < T; t++) filled[t] = (row[t] - mean[c]) / deviation[c];
        prior_of(n, filled, is, guess, work);
        for (int t = 0; t < T; t++) {
            if (!std::isfinite(filled[t])) filled[t] = guess[t];
            for (int j = 0; j < d; j += W)
                store(hidden + (size_t(t) * C + c) * d + j, guess[t] * load(n.embed + j) + float(is[t]) * load(n.embed + d + j)
                                                               + (filled[t] - guess[t]) * load(n.between + j));
        }
    }
    for (int t = 0; t < T; t++) {
        every[t] = t;
        if (due[t]) steps.push_back(t);
    }
    for (int i = 0; i < n.layers; i++) {
        global(n, n.layer[i], hidden, work);
        refine(n, n.layer[i], hidden, seen.data(), i + 1 < n.layers ? every : steps, work);
    }
    std::vector<int> cells;  // t * C + c
    for (int t : steps)
        for (int c = 0; c < C; c++)
            if (!seen[c * T + t]) cells.push_back(t * C + c);
    for (size_t from = 0; from < cells.size(); from += ROWS) {
        const int count = cells.size() - from < ROWS ? int(cells.size() - from) : ROWS;
        for (int r = 0; r < count; r++) normalised(hidden + size_t(cells[from + r]) * d, d, n.norm, plain + r * d);
        float answers[2][ROWS];
        for (int i = 0; i < 2; i++) {
            const Head& head = n.head[i];
            V sums[ROWS] = {};
            linear(plain, count, d, head.value, head.value_b, n.recon, [&](int r, int j, V v) { store(inner + r * n.recon + j, v); });
            linear(plain, count, d, head.gate, head.gate_b, n.recon, [&](int r, int j, V v) {
                sums[r] += load(inner + r * n.recon + j) * sigmoid(v) * load(head.out + j);
            });
            for (int r = 0; r < count; r++) answers[i][r] = total(sums[r]) + head.bias;
        }
        for (int r = 0; r < count; r++) {
            const int t = cells[from + r] / C, c = cells[from + r] % C, at = c * T + t;
            int before = -T, after = 2 * T, reach, kind;
            for (int s = t; s >= 0 && before < 0; s--) before = seen[c * T + s] ? s : before;
            for (int s = t; s < T && after > T; s++) after = seen[c * T + s] ? s : after;
            reach = t - before < after - t ? t - before : after - t;
            kind = (reach > 1) + (reach > 3) + (reach > 8);
            const float change = (std::tanh(answers[0][r]) * (prior[at] - form[at]) + answers[1][r]) * deviation[c];
            const float start = std::isfinite(x[at]) ? x[at] : prior[at] * deviation[c] + mean[c];
            out[c * S + t - first] = (start + change * n.share[c * 4 + kind]) * n.std[c] + level[c];
        }
    }
}

// Gives each part of the network its numbers, in the order of kernel.py, each piece padded to 16; returns their count.
int64_t lay_out(Network& n, const float* at) {
    const int C = n.sensors, T = n.window, D = n.d, F = n.ffn, H = n.heads;
    int64_t used = 0;
    auto next = [&](int64_t size) {
        const float* piece = at + used;
        used += (size + 15) / 16 * 16;
        return piece;
    };
    auto encoder = [&] {
        Encoder e;
        e.qkv = next(3 * D * D), e.qkv_b = next(3 * D), e.out = next(D * D), e.out_b = next(D), e.gain = next(D), e.shift = next(D);
        e.in = next(D * F), e.in_b = next(F), e.back = next(F * D), e.back_b = next(D), e.gain2 = next(D), e.shift2 = next(D);
        return e;
    };
    n.scalars = next(5), n.mean = next(C), n.std = next(C), n.share = next(C * 4), n.widths = next(n.scales);
    n.temporal = next(3 * (n.scales + 4) * n.router), n.temporal_b = next(n.router);
    n.pointwise = next((n.scales + 1) * n.router), n.pointwise_b = next(n.scales + 1), n.embed = next(2 * D), n.between = next(D);
    n.layer.resize(n.layers);
    for (Layer& l : n.layer) {
        l.edge = next(T * D), l.taps = next((n.taps + 14) * D), l.in = next(D * F), l.in_b = next(F), l.back = next(F * D);
        l.back_b = next(D), l.mixing = next(C * C * D), l.added = next(2 * T * D), l.scores = next(H * D), l.pool = next(H * D * D);
        l.identity = next(C * D), l.relation = encoder(), l.change = next(D * D), l.change_b = next(D), l.scale = next(D * D);
        l.scale_b = next(D), l.shift = next(D * D), l.shift_b = next(D), l.first = next(D * D), l.second = next(D * D), l.zero = next(D);
        l.refiner = encoder(), l.gate_u = next(D * D), l.gate_c = next(D * D), l.gate_b = next(D), l.gate_out = next(D * D);
        l.gate_out_b = next(D);
    }
    for (Head& head : n.head) {
        head.value = next(D * n.recon), head.value_b = next(n.recon), head.gate = next(D * n.recon), head.gate_b = next(n.recon);
        head.out = next(n.recon);
    }
    return used;
}

}  // namespace

extern "C" {

// Null if the counts of numbers do not go with the sizes.
void* glaim_open(const int* sizes, const float* floats, int64_t count, const double* doubles, int64_t countd) {
    Network* n = new Network();
    std::memcpy(static_cast<Sizes*>(n), sizes, sizeof(Sizes));
    const int64_t C = n->sensors, cells = C * n->window;
    n->numbers.assign(floats, floats + count);
    n->doubles.assign(doubles, doubles + countd);
    if (lay_out(*n, n->numbers.data()) != count || countd != 2 * cells * cells + 6 * C + C * C || n->scales > 63) {
        delete n;
        return nullptr;
    }
    n->eps = n->scalars[0], n->temperature = n->scalars[1], n->norm = n->scalars[2];
    n->head[0].bias = n->scalars[3], n->head[1].bias = n->scalars[4];
    n->precision = n->doubles.data(), n->covariance = n->precision + cells * cells, n->unit = n->covariance + cells * cells;
    n->levels = n->unit + C, n->zero = n->levels + C * C, n->range = n->zero + C;
    return n;
}

// Windows [batch][C][T] to answers [batch][C][emitted]. Any number of threads may call at once. 1 if memory is lacking.
int glaim_fill(const void* network, const float* values, const uint8_t* observed, float* out, int64_t batch) {
    const Network& n = *static_cast<const Network*>(network);
    const int64_t cells = int64_t(n.sensors) * n.window, rows = int64_t(W) * n.sensors, d = n.d;
    try {
        Work work;
        work.reserve(3 * cells + 2 * cells * d + (8 + 3 + n.heads) * rows * d + (ROWS + 16) * (n.ffn + d + n.recon)
                           + (n.heads + 2 * n.scales + 4) * n.window + n.router + rows + 1024,
                     2 * cells + 2 * n.sensors + n.sensors * n.sensors + cells * cells / 4 + cells + 64);
        for (int64_t i = 0; i < batch; i++)
            window(n, values + i * cells, observed + i * cells, out + i * n.sensors * n.emitted, work);
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}

void glaim_close(void* network) { delete static_cast<Network*>(network); }

// A made-up network over windows of all kinds: whether this processor knows every instruction. 0 if all is well.
int glaim_try() {
    Network sized;
    const Sizes sizes = {2, 20, 16, 2, 16, 2, 5, 16, 2, 16, 8};
    static_cast<Sizes&>(sized) = sizes;
    const int C = sizes.sensors, T = sizes.window, cells = C * T;
    std::vector<float> floats(lay_out(sized, nullptr), 0.01f), values(cells, 1.0f), out(C * sizes.emitted);
    std::vector<double> doubles(2 * cells * cells + 6 * C + C * C, 1.0);
    for (int i = 0; i < 2 * cells * cells; i++) doubles[i] = i % (cells * cells) % (cells + 1) ? 0.0 : 1.0;
    void* network = glaim_open(&sizes.sensors, floats.data(), int64_t(floats.size()), doubles.data(), int64_t(doubles.size()));
    if (!network) return 2;
    int failed = 0;
    for (int every = 1; every <= T; every++) {
        std::vector<uint8_t> observed(cells);
        for (int i = 0; i < cells; i++) observed[i] = i % every == 0 || i < every;
        failed |= glaim_fill(network, values.data(), observed.data(), out.data(), 1);
        for (float each : out) failed |= !std::isfinite(each);
    }
    glaim_close(network);
    return failed;
}
}
