"""Which networks' peaks are measured, and which of them rules of workspaces were learned from."""

from __future__ import annotations

from typing import Final

#: Networks of timm whose operators were watched while rules of workspaces were written; the others
#: of the sample were measured afterwards.
_LEARNED: Final = """
    resnet18 mobilenetv3_small_050 vit_tiny_patch16_224 efficientnet_lite0 convnext_atto
    swin_tiny_patch4_window7_224 regnetx_002 densenet121 inception_v3 resnext50_32x4d mixer_s32_224
    coatnet_nano_rw_224 xcit_nano_12_p16_224 efficientvit_b0 nf_regnet_b0 poolformer_s12
"""
LEARNED: Final = frozenset(_LEARNED.split())

#: Of each module of timm its smallest network that no rule was learned from.
_SAMPLE: Final = """
    beit_base_patch16_224 halonet_h1 mobileone_s0 cait_xxs24_224 coat_tiny convit_tiny
    convmixer_768_32 convnext_zepto_rms cpubone_nano crossvit_tiny_240 csatv2 cs3darknet_focus_s
    cspnext_tiny davit_tiny deit_tiny_patch16_224 tv_densenet121 dla46x_c dpn48b edgenext_xx_small
    efficientformer_l1 efficientformerv2_s0 mobilenetv2_035 efficientvim_m1 efficientvit_b1
    efficientvit_m0 eva02_tiny_patch14_224 fasternet_t0 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny
    ghostnet_050 hardcorenas_b hgnetv2_b0 hiera_tiny_224 sam2_hiera_tiny hrnet_w18_small iformer_t
    inception_next_atto ens_adv_inception_resnet_v2 adv_inception_v3 inception_v4 lcnetv2_small
    levit_128s lowformer_b0 mambaout_femto maxvit_pico_rw_256 poolformerv2_s12 gmlp_ti16_224
    lcnet_035 mobilevit_xxs mvitv2_tiny jx_nest_tiny nextvit_small nf_regnet_b1 pit_ti_224
    pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnety_002 repghostnet_050 repvit_m0_9 res2next50
    resnest14d resnet10t resnetv2_18 rexnet_100 selecsls42 legacy_seresnet18 sequencer2d_s shvit_s1
    skresnet18 starnet_s050 swiftformer_xs swin_s3_tiny_224 swinv2_tiny_window16_256
    swinv2_cr_tiny_224 tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small vgg11
    visformer_tiny vit_tiny_patch16_384 vit_tiny_r_s16_p8_224 vit_relpos_small_patch16_rpn_224
    vitamin_small_224 volo_d1_224 ese_vovnet19b_slim_dw legacy_xception xception41p
    xcit_nano_12_p16_224_dist
    naflexvit_base_patch16_gap nasnetalarge pnasnet5large mobilenetv5_base samvit_base_patch16_224
    gemma4_vit_167m deepseek_vit_412m
"""
SAMPLE: Final = tuple(_SAMPLE.split())

#: Networks of the studies, which need no timm, and the images that they are measured on.
OF_STUDIES: Final = {
    "LeNet-5": (8, 1, 32, 32),
    "CIFAR": (8, 3, 32, 32),
    "ResNet-20": (4, 3, 32, 32),
    "ResNet-18": (2, 3, 64, 64),
    "MobileNetV2": (2, 3, 64, 64),
    "AlexNet": (2, 3, 224, 224),
    "VGG-11": (2, 3, 224, 224),
}
