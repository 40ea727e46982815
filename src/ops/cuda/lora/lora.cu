/*
 * lora_xa, lora_dxa and lora_da where no kernel of Hopper's fits (lora_*_hopper.cu): a thin product or
 * gradient for every pair. Kernels of few columns take the mask as they read x (grouped_tiles.cu). For the
 * others what the mask keeps of x is made once, in scratch, behind what products need themselves.
 */
#include "ops/cuda/elementwise/mask.cuh"
#include "ops/cuda/lora/lora_hopper.cuh"

#define LEAST_ROWS 1024 // of a dense thin product: cuBLAS spreads fewer over the device by steps

static const struct mt_tensor no_mask = {};

/* Scratch: what products need themselves, then what the mask keeps of x. */
struct pieces {
    size_t product, x; // bytes
};

static void add_piece(struct pieces *pieces, size_t product, bool kept, const struct mt_tensor *x)
{
    product = (product + 255) / 256 * 256;
    if (product > pieces->product) pieces->product = product;
    if (kept) pieces->x = cuda_masked_bytes(x);
}

// ------------------------------------------------------------------ thin products

/* y = alpha · x op(W)ᵀ for rows of experts, or of one without offsets. */
struct thin_product {
    struct mt_grouped_gemm_args product; // alpha has the mask's scale
    struct mt_tensor mask;               // of x; absent: x is read as it is
    bool kept;                           // x is what a mask keeps
    bool exact;                          // on a GPU that rounds, too; then there are no offsets
};

static bool thin_fits(const struct mt_device *device, const struct thin_product *p)
{
    const struct mt_grouped_gemm_args *g = &p->product;
    bool masked = mt_tensor_present(&p->mask);
    if (p->exact || !cuda_state_of(device)->bf16) return false;
    if (!cuda_is_float_or_bf16(&g->y) || !cuda_is_float_or_bf16(&g->x)) return false;
    bool sparse = !masked && !mt_tensor_present(&g->offsets) && g->y.dim[0] < LEAST_ROWS;
    return !sparse && cuda_grouped_tiles_fits(g, &p->mask) && cuda_uniform(g->weight, g->experts) != NULL;
}

static size_t thin_bytes(const struct mt_device *device, const struct thin_product *p)
{
    return cuda_grouped_tiles_bytes(device, &p->product);
}

static enum mt_status run_thin(struct mt_device *device, const struct thin_product *p, void *scratch)
{
    return cuda_grouped_tiles(device, &p->product, &p->mask, scratch);
}

/* An absent matrix is no operand of gemm. */
static bool exact_fits(const struct mt_device *, const struct thin_product *p)
{
    return p->exact && mt_tensor_present(&p->product.weight[0]);
}

static struct mt_gemm_args exact_of(const struct thin_product *p)
{
    struct mt_gemm_args exact = {};
    exact.a = p->product.x;
    exact.b = p->product.weight[0];
    exact.c = p->product.y;
    exact.transpose_b = true;
    exact.exact = true;
    exact.alpha = p->product.alpha;
    return exact;
}

static size_t exact_bytes(const struct mt_device *device, const struct thin_product *p)
{
    struct mt_gemm_args exact = exact_of(p);
    return mt_cuda_gemm_scratch(device, &exact);
}

static enum mt_status run_exact(struct mt_device *device, const struct thin_product *p, void *)
{
    struct mt_gemm_args exact = exact_of(p);
    return mt_cuda_gemm(device, &exact);
}

static size_t other_bytes(const struct mt_device *device, const struct thin_product *p)
{
    return mt_cuda_grouped_gemm_scratch(device, &p->product);
}

static enum mt_status run_other(struct mt_device *device, const struct thin_product *p, void *)
{
    return mt_cuda_grouped_gemm(device, &p->product);
}

static const struct cuda_variant<struct thin_product> thin = {
    thin_fits, thin_bytes, run_thin
};
static const struct cuda_variant<struct thin_product> exact = {
    exact_fits, exact_bytes, run_exact
};
static const struct cuda_variant<struct thin_product> other = {
    NULL, other_bytes, run_other
};
static const struct cuda_variant<struct thin_product> *const products[] = {
    &thin, &exact, &other
};

// ------------------------------------------------------------------ lora_xa

/* Pair i's product. Where the thin kernel does not take the mask, x is what it keeps, at `kept`. */
static struct thin_product xa_product(const struct mt_device *device, const struct mt_lora_xa_args *l, int i,
                                      void *kept)
{
    struct thin_product p = {};
    p.product.x = l->x;
    p.product.weight = l->a[i];
    p.product.experts = l->experts;
    p.product.offsets = l->offsets;
    p.product.y = l->xa[i];
    p.product.transpose_weight = true;
    p.product.alpha = mt_tensor_present(&l->mask) ? l->alpha * l->mask_scale : l->alpha;
    p.mask = l->mask;
    p.exact = l->exact;
    if (mt_tensor_present(&l->mask) && !thin_fits(device, &p)) {
        p.product.x = mt_tensor_2d(kept, l->x.dtype, l->x.dim[0], l->x.dim[1]);
        p.mask = no_mask;
        p.kept = true;
    }
    return p;
}

static struct pieces xa_pieces(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    struct pieces pieces = {};
    for (int i = 0; i < l->linears; i++) {
        struct thin_product p = xa_product(device, l, i, NULL);
        add_piece(&pieces, cuda_bytes(products, device, &p), p.kept, &l->x);
    }
    return pieces;
}

static size_t xa_bytes(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    struct pieces pieces = xa_pieces(device, l);
    return pieces.product + pieces.x;
}

static enum mt_status run_xa(struct mt_device *device, const struct mt_lora_xa_args *l, void *scratch)
{
    struct pieces pieces = xa_pieces(device, l);
    char *kept = static_cast<char *>(scratch) + pieces.product;
    struct mt_tensor made;
    enum mt_status status = MT_OK;
    if (pieces.x > 0) status = cuda_mask(device, &l->x, &l->mask, kept, &made);
    for (int i = 0; i < l->linears && status == MT_OK; i++) {
        struct thin_product p = xa_product(device, l, i, kept);
        status = cuda_run(products, device, &p, scratch);
    }
    return status;
}

/* The same of x rounded to bf16, at `memory`: Hopper's kernel may then fit. */
static struct mt_lora_xa_args rounded_of(const struct mt_lora_xa_args *l, void *memory)
{
    struct mt_lora_xa_args rounded = *l;
    rounded.x = mt_tensor_2d(memory, MT_BF16, l->x.dim[0], l->x.dim[1]);
    return rounded;
}

static bool rounded_fits(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    struct mt_lora_xa_args rounded = rounded_of(l, NULL);
    return l->x.dtype == MT_F32 && !l->exact && cuda_lora_xa_hopper.fits(device, &rounded);
}

static size_t rounded_bytes(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    struct mt_lora_xa_args rounded = rounded_of(l, NULL);
    return cuda_halves(mt_tensor_count(&l->x)) + cuda_lora_xa_hopper.bytes(device, &rounded);
}

static enum mt_status run_rounded(struct mt_device *device, const struct mt_lora_xa_args *l, void *scratch)
{
    struct mt_lora_xa_args rounded = rounded_of(l, scratch);
    cuda_round(device, &l->x, scratch);
    enum mt_status status = cuda_launched(device, "rounding rows");
    char *behind = static_cast<char *>(scratch) + cuda_halves(mt_tensor_count(&l->x));
    return status == MT_OK ? cuda_lora_xa_hopper.run(device, &rounded, behind) : status;
}

static const struct cuda_variant<struct mt_lora_xa_args> xa_rounded = {
    rounded_fits, rounded_bytes, run_rounded
};
static const struct cuda_variant<struct mt_lora_xa_args> xa_each = {
    NULL, xa_bytes, run_xa
};
static const struct cuda_variant<struct mt_lora_xa_args> *const xa_variants[] = {
    &cuda_thin_xa, &cuda_lora_xa_hopper, &xa_rounded, &xa_each,
};
CUDA_OP(lora_xa, xa_variants)

// ------------------------------------------------------------------ lora_dxa

static struct thin_product dxa_product(const struct mt_lora_dxa_args *l,
                                       const struct mt_lora_pair_gradient *linear)
{
    struct thin_product p = {};
    p.product.x = linear->dy;
    p.product.weight = linear->b;
    p.product.experts = l->experts;
    p.product.offsets = l->offsets;
    p.product.y = linear->dxa;
    p.product.alpha = linear->scale;
    return p;
}

static struct mt_grouped_gemm_dw_args db_gradient(const struct mt_lora_dxa_args *l,
                                                  const struct mt_lora_pair_gradient *linear)
{
    struct mt_grouped_gemm_dw_args gradient = {};
    gradient.dy = linear->dy;
    gradient.x = linear->xa;
    gradient.dweight = linear->db;
    gradient.experts = l->experts;
    gradient.offsets = l->offsets;
    gradient.alpha = linear->db_scale;
    gradient.beta = 1.0f;
    return gradient;
}

static size_t dxa_bytes(const struct mt_device *device, const struct mt_lora_dxa_args *l)
{
    struct pieces pieces = {};
    for (int i = 0; i < l->linears; i++) {
        struct thin_product p = dxa_product(l, &l->linear[i]);
        add_piece(&pieces, cuda_bytes(products, device, &p), false, NULL);
        if (l->linear[i].db == NULL) continue;
        struct mt_grouped_gemm_dw_args gradient = db_gradient(l, &l->linear[i]);
        add_piece(&pieces, mt_cuda_grouped_gemm_dw_scratch(device, &gradient), false, NULL);
    }
    return pieces.product;
}

static enum mt_status run_dxa(struct mt_device *device, const struct mt_lora_dxa_args *l, void *scratch)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < l->linears && status == MT_OK; i++) {
        struct thin_product p = dxa_product(l, &l->linear[i]);
        status = cuda_run(products, device, &p, scratch);
        if (status != MT_OK || l->linear[i].db == NULL) continue;
        struct mt_grouped_gemm_dw_args gradient = db_gradient(l, &l->linear[i]);
        status = mt_cuda_grouped_gemm_dw(device, &gradient);
    }
    return status;
}

static const struct cuda_variant<struct mt_lora_dxa_args> dxa_each = {
    NULL, dxa_bytes, run_dxa
};
static const struct cuda_variant<struct mt_lora_dxa_args> *const dxa_variants[] = {
    &cuda_lora_dxa_hopper, &dxa_each
};
CUDA_OP(lora_dxa, dxa_variants)

// ------------------------------------------------------------------ lora_da

/* A gradient of A; its mask, if the kernel takes it, or x is what it keeps. */
struct thin_gradient {
    struct mt_grouped_gemm_dw_args gradient; // alpha has the mask's scale
    bool by_tiles;                           // under the mask itself
    bool kept;                               // x is what the mask keeps
};

static struct thin_gradient da_gradient(const struct mt_device *device, const struct mt_lora_da_args *l,
                                        int i, void *kept)
{
    struct thin_gradient g = {};
    g.gradient.dy = l->dxa[i];
    g.gradient.x = l->x;
    g.gradient.dweight = l->da[i];
    g.gradient.experts = l->experts;
    g.gradient.offsets = l->offsets;
    g.gradient.alpha = mt_tensor_present(&l->mask) ? l->mask_scale : 1.0f;
    g.gradient.beta = 1.0f;
    g.by_tiles = cuda_dw_by_tiles(device, &g.gradient);
    g.kept = mt_tensor_present(&l->mask) && !g.by_tiles;
    if (g.kept) g.gradient.x = mt_tensor_2d(kept, l->x.dtype, l->x.dim[0], l->x.dim[1]);
    return g;
}

static struct pieces da_pieces(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    struct pieces pieces = {};
    for (int i = 0; i < l->linears; i++) {
        struct thin_gradient g = da_gradient(device, l, i, NULL);
        add_piece(&pieces, mt_cuda_grouped_gemm_dw_scratch(device, &g.gradient), g.kept, &l->x);
    }
    return pieces;
}

static size_t da_bytes(const struct mt_device *device, const struct mt_lora_da_args *l)
{
    struct pieces pieces = da_pieces(device, l);
    return pieces.product + pieces.x;
}

static enum mt_status run_da(struct mt_device *device, const struct mt_lora_da_args *l, void *scratch)
{
    struct pieces pieces = da_pieces(device, l);
    char *kept = static_cast<char *>(scratch) + pieces.product;
    struct mt_tensor made;
    enum mt_status status = MT_OK;
    if (pieces.x > 0) status = cuda_mask(device, &l->x, &l->mask, kept, &made);
    for (int i = 0; i < l->linears && status == MT_OK; i++) {
        struct thin_gradient g = da_gradient(device, l, i, kept);
        status = g.by_tiles ? cuda_grouped_dw_tiles(device, &g.gradient, &l->mask, scratch)
                            : mt_cuda_grouped_gemm_dw(device, &g.gradient);
    }
    return status;
}

static const struct cuda_variant<struct mt_lora_da_args> da_each = {
    NULL, da_bytes, run_da
};
static const struct cuda_variant<struct mt_lora_da_args> *const da_variants[] = {
    &cuda_lora_da_hopper, &da_each
};
CUDA_OP(lora_da, da_variants)
